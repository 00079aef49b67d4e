// SPDX-License-Identifier: GPL-2.0-only
/*
 * polled DISK COUNT STEP FILE: submits COUNT polled reads of 4 KiB, at each STEPth block, in one batch. Prints "submitted", and waits
 * for FILE without polling. Then polls until all reads have ended, and checks their results.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCK = 4096 };

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void *map_ring(int ring, size_t size, long long offset)
{
	void *at =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);

	if (at == MAP_FAILED)
		die("mmap of a ring");
	return at;
}

int main(int argc, char **argv)
{
	struct io_uring_params p = { .flags = IORING_SETUP_IOPOLL };
	unsigned int count = argc == 5 ? atoi(argv[2]) : 0, i, wrong = 0;
	unsigned int *cq_head, *cq_tail;
	struct io_uring_cqe *cqes;
	struct io_uring_sqe *sqes;
	char path[128], *buffer, *sq, *cq;
	int disk, ring;

	if (!count)
		return 2;
	snprintf(path, sizeof(path), "/dev/%s", argv[1]);
	disk = open(path, O_RDONLY | O_DIRECT);
	if (disk < 0)
		die(path);
	if (posix_memalign((void **)&buffer, BLOCK, (size_t)count * BLOCK))
		die("memory");
	ring = syscall(SYS_io_uring_setup, count, &p);
	if (ring < 0)
		die("io_uring_setup");
	sq = map_ring(ring, p.sq_off.array + p.sq_entries * sizeof(unsigned int),
		      IORING_OFF_SQ_RING);
	cq = map_ring(ring, p.cq_off.cqes + p.cq_entries * sizeof(*cqes), IORING_OFF_CQ_RING);
	sqes = map_ring(ring, p.sq_entries * sizeof(*sqes), IORING_OFF_SQES);
	cq_head = (unsigned int *)(cq + p.cq_off.head);
	cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);

	for (i = 0; i < count; i++) {
		sqes[i] = (struct io_uring_sqe){
			.opcode = IORING_OP_READ,
			.fd = disk,
			.off = (uint64_t)i * atoi(argv[3]) * BLOCK,
			.addr = (uintptr_t)buffer + (uintptr_t)i * BLOCK,
			.len = BLOCK,
		};
		((unsigned int *)(sq + p.sq_off.array))[i] = i;
	}
	__atomic_store_n((unsigned int *)(sq + p.sq_off.tail), count, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, count, 0, 0, NULL, 0) != (long)count)
		die("io_uring_enter");
	puts("submitted");
	fflush(stdout);

	while (access(argv[4], F_OK))
		usleep(10000);
	for (i = 0; i < count; i++, ++*cq_head) {
		while (*cq_head == __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE))
			if (syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL,
				    0) < 0)
				die("io_uring_enter, to poll");
		if (cqes[*cq_head & (p.cq_entries - 1)].res != BLOCK)
			wrong++;
	}
	printf("%u of %u reads failed\n", wrong, count);
	return !!wrong;
}
