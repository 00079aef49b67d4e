// SPDX-License-Identifier: GPL-2.0-only
/*
 * polled DISK COUNT STEP FILE: submits COUNT polled reads of 4 KiB, at each STEPth block, in one batch. Prints "submitted", and waits
 * for FILE without polling. Then polls until all reads have ended, and checks their results.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "uring.h"

enum { BLOCK = 4096 };

int main(int argc, char **argv)
{
	unsigned int count = argc == 5 ? atoi(argv[2]) : 0, i, wrong = 0;
	struct uring ring;
	uint64_t data;
	char path[128], *buffer;
	int disk;

	if (!count)
		return 2;
	snprintf(path, sizeof(path), "/dev/%s", argv[1]);
	disk = open(path, O_RDONLY | O_DIRECT);
	if (disk < 0)
		die(path);
	if (posix_memalign((void **)&buffer, BLOCK, (size_t)count * BLOCK))
		die("memory");
	uring_open(&ring, count, IORING_SETUP_IOPOLL);
	for (i = 0; i < count; i++)
		*uring_slot(&ring, i) = (struct io_uring_sqe){
			.opcode = IORING_OP_READ,
			.fd = disk,
			.off = (uint64_t)i * atoi(argv[3]) * BLOCK,
			.addr = (uintptr_t)buffer + (uintptr_t)i * BLOCK,
			.len = BLOCK,
		};
	uring_submit(&ring, count, 0);
	puts("submitted");
	fflush(stdout);

	while (access(argv[4], F_OK))
		usleep(10000);
	for (i = 0; i < count; i++)
		wrong += uring_end(&ring, &data) != BLOCK;
	printf("%u of %u reads failed\n", wrong, count);
	return !!wrong;
}
