// SPDX-License-Identifier: GPL-2.0-only
/*
 * iobench <device> <queue depth> <I/Os> <batch>: 4 KiB random direct reads with as little user code as possible, to count the kernel's cost
 * of an I/O. Depth 1 uses pread(), larger depths libaio's system calls with <batch> I/Os to an io_submit(). Prints one CPU's busy
 * nanoseconds for each I/O, over a second pass (the first warms up). In virtual time a nanosecond is an instruction.
 *
 * Busy time is elapsed time less idle time: /proc/timer_list has both to the nanosecond if the machine has one CPU.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, DEPTH_MAX = 256, BLOCKS = 65536 };

static char *buffers;
static uint32_t random_state = 1;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* xorshift32 (Marsaglia 2003): the same offsets in every run */
static long long random_offset(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return (long long)(random_state % BLOCKS) * BLOCK;
}

static unsigned long long busy_ns(void)
{
	static char text[1 << 18];
	int fd = open("/proc/timer_list", O_RDONLY);
	unsigned long long idle = 0, value, now;
	size_t length = 0;
	struct timespec t;
	ssize_t n;
	char *at;

	if (fd < 0)
		die("/proc/timer_list");
	while (length < sizeof(text) - 1 &&
	       (n = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += n;
	close(fd);
	text[length] = 0;
	for (at = text; (at = strstr(at, "_sleeptime")); at++)
		if (sscanf(at, "_sleeptime%*[ :]%llu", &value) == 1)
			idle += value;
	clock_gettime(CLOCK_MONOTONIC, &t);
	now = t.tv_sec * 1000000000ull + t.tv_nsec;
	return now - idle;
}

static void read_one_by_one(int fd, long count)
{
	while (count--)
		if (pread(fd, buffers, BLOCK, random_offset()) != BLOCK)
			die("pread");
}

static void read_deep(int fd, int depth, long count, int batch)
{
	static struct iocb blocks[DEPTH_MAX], *free_blocks[DEPTH_MAX], *submitted[DEPTH_MAX];
	static struct io_event events[DEPTH_MAX];
	static aio_context_t context;
	int free_count = 0, inflight = 0, i, n;

	if (!context && syscall(SYS_io_setup, DEPTH_MAX, &context))
		die("io_setup");
	for (i = 0; i < depth; i++)
		free_blocks[free_count++] = &blocks[i];
	while (count || inflight) {
		for (n = 0; count && n < batch && free_count; count--) {
			struct iocb *b = free_blocks[--free_count];

			*b = (struct iocb){ .aio_fildes = fd,
					    .aio_lio_opcode = IOCB_CMD_PREAD,
					    .aio_buf = (uintptr_t)buffers + (b - blocks) * BLOCK,
					    .aio_nbytes = BLOCK,
					    .aio_offset = random_offset(),
					    .aio_data = (uintptr_t)b };
			submitted[n++] = b;
		}
		if (n && syscall(SYS_io_submit, context, n, submitted) != n)
			die("io_submit");
		inflight += n;
		if (inflight < depth && count)
			continue;
		n = syscall(SYS_io_getevents, context, inflight < batch ? inflight : batch,
			    DEPTH_MAX, events, NULL);
		if (n < 0)
			die("io_getevents");
		for (i = 0; i < n; i++) {
			if (events[i].res != BLOCK)
				die("a read");
			free_blocks[free_count++] = (void *)(uintptr_t)events[i].data;
		}
		inflight -= n;
	}
}

int main(int argc, char **argv)
{
	unsigned long long start = 0;
	int fd, depth, batch, pass;
	long count;

	if (argc != 5) {
		fputs("usage: iobench <device> <queue depth> <I/Os> <batch>\n", stderr);
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	depth = atoi(argv[2]);
	count = atol(argv[3]);
	batch = atoi(argv[4]);
	if (fd < 0 || depth < 1 || depth > DEPTH_MAX || count < 4 || batch < 1 ||
	    posix_memalign((void **)&buffers, BLOCK, BLOCK * DEPTH_MAX))
		die(argv[1]);
	memset(buffers, 1, BLOCK * DEPTH_MAX);
	for (pass = 0; pass < 2; pass++) {
		long n = pass ? count : count / 4;

		start = busy_ns();
		if (depth == 1)
			read_one_by_one(fd, n);
		else
			read_deep(fd, depth, n, batch);
	}
	printf("%.1f\n", (double)(busy_ns() - start) / count);
	return 0;
}
