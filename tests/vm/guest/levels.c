// SPDX-License-Identifier: GPL-2.0-only
/*
 * levels DISK aio|uring|worker|sqpoll OWN [STEP [nobody]]: submits one 4 KiB read with each (or each STEPth) of the
 * 65536 values of an I/O priority, and compares the insertions counted in /proc/tailgate-k2 with those expected: class RT
 * is level value & 7, class NONE is the task's level OWN, other classes are level 8. The kernel refuses invalid values;
 * these are counted. With `worker` io_uring's worker threads submit, with `sqpoll` its polling thread. With `nobody` the
 * program first gives up the right to the real-time class.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <string.h>

#include "uring.h"

enum { BLOCK = 4096, BATCH = 64, LEVELS = 9, VALUES = 65536, CLASS_SHIFT = 13, CLASS_RT = 1 };

static char *buffer;
static int disk;
static long expected[LEVELS], accepted, refused_invalid, refused_permission;
static int own;

static void account(unsigned int value, long result)
{
	unsigned int class = value >> CLASS_SHIFT;

	if (result == -EINVAL) {
		refused_invalid++;
	} else if (result == -EPERM) {
		refused_permission++;
	} else if (result == BLOCK) {
		accepted++;
		expected[class == CLASS_RT ? (int)(value & 7) : class ? LEVELS - 1 : own]++;
	} else {
		fprintf(stderr, "I/O priority %#x: result %ld\n", value, result);
		exit(1);
	}
}

/* not adjacent, so that no requests are merged */
static long long offset_of(unsigned int value)
{
	return (long long)(value % 8192) * 2 * BLOCK;
}

static void submit_aio(unsigned int step)
{
	struct io_event events[BATCH];
	aio_context_t context = 0;
	unsigned int value, pending = 0, i;
	long n;

	if (syscall(SYS_io_setup, BATCH, &context))
		die("io_setup");
	for (value = 0; value < VALUES; value += step) {
		struct iocb cb = {
			.aio_data = value,
			.aio_lio_opcode = IOCB_CMD_PREAD,
			.aio_fildes = disk,
			.aio_buf = (uintptr_t)buffer,
			.aio_nbytes = BLOCK,
			.aio_offset = offset_of(value),
			.aio_flags = IOCB_FLAG_IOPRIO,
			.aio_reqprio = (int16_t)value,
		}, *cbs = &cb;

		if (syscall(SYS_io_submit, context, 1, &cbs) == 1)
			pending++;
		else
			account(value, -errno);
		if (pending < BATCH && value + step < VALUES)
			continue;
		while (pending) {
			n = syscall(SYS_io_getevents, context, 1, BATCH, events, NULL);
			if (n < 1)
				die("io_getevents");
			for (i = 0; i < n; i++)
				account(events[i].data, events[i].res);
			pending -= n;
		}
	}
}

static void submit_uring(unsigned int step, unsigned int setup, unsigned int sqe_flags)
{
	unsigned int value = 0, count, i;
	struct uring ring;
	uint64_t data;
	int result;

	uring_open(&ring, BATCH, setup | IORING_SETUP_SUBMIT_ALL);
	while (value < VALUES) {
		for (count = 0; count < BATCH && value < VALUES; count++, value += step)
			*uring_slot(&ring, count) = (struct io_uring_sqe){
				.opcode = IORING_OP_READ,
				.flags = sqe_flags,
				.ioprio = value,
				.fd = disk,
				.off = offset_of(value),
				.addr = (uintptr_t)buffer,
				.len = BLOCK,
				.user_data = value,
			};
		/* one system call, one plug: requests of many levels are inserted together */
		uring_submit(&ring, count, count);
		for (i = 0; i < count; i++) {
			result = uring_end(&ring, &data);
			account(data, result);
		}
	}
}

static void read_inserted(const char *name, long inserted[LEVELS])
{
	char disk_name[64], line[512];
	unsigned int level;
	long value;
	FILE *f;

	f = fopen("/proc/tailgate-k2", "r");
	if (!f)
		die("/proc/tailgate-k2");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s level%u.inserted %ld", disk_name, &level, &value) == 3 &&
		    !strcmp(disk_name, name) && level < LEVELS)
			inserted[level] = value;
	fclose(f);
}

int main(int argc, char **argv)
{
	long before[LEVELS] = { 0 }, after[LEVELS] = { 0 };
	unsigned int step = argc > 4 ? atoi(argv[4]) : 1, i;
	int wrong = 0;
	char path[128];

	if (argc < 4)
		return 2;
	own = atoi(argv[3]);
	snprintf(path, sizeof(path), "/dev/%s", argv[1]);
	disk = open(path, O_RDONLY | O_DIRECT);
	if (disk < 0)
		die(path);
	if (posix_memalign((void **)&buffer, BLOCK, BLOCK))
		die("memory");
	memset(buffer, 0, BLOCK);
	if (argc > 5 && setresuid(65534, 65534, 65534))
		die("setresuid");
	read_inserted(argv[1], before);
	if (!strcmp(argv[2], "aio"))
		submit_aio(step);
	else
		submit_uring(step, !strcmp(argv[2], "sqpoll") ? IORING_SETUP_SQPOLL : 0,
			     !strcmp(argv[2], "worker") ? IOSQE_ASYNC : 0);
	read_inserted(argv[1], after);

	printf("%s: %ld accepted, %ld invalid, %ld not permitted; inserted by level:", argv[2],
	       accepted, refused_invalid, refused_permission);
	for (i = 0; i < LEVELS; i++) {
		printf(" %ld", after[i] - before[i]);
		if (after[i] - before[i] != expected[i]) {
			printf(" (expected %ld)", expected[i]);
			wrong = 1;
		}
	}
	puts("");
	return wrong || !accepted;
}
