// SPDX-License-Identifier: GPL-2.0-only
/*
 * order DISK SEED CPUS [hold]: fills the queue of a vflash drive that takes one request at a time, and checks the order in
 * which requests are served. The driver refuses all requests while each of CPUS threads, each on a CPU of its own, submits
 * READS reads of random levels. Then the driver accepts them. They must end level by level, and within a level in the order
 * in which their thread submitted them. Exit status 1 if not. With `hold` another program lets the driver accept them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCK = 4096, READS = 48, CPUS_MAX = 8, LEVELS = 9, CLASS_RT = 1, CLASS_BE = 2 };

/* aio_data of a request: its level, its thread, and its number in the thread */
struct tag {
	unsigned char level, thread;
	unsigned short number;
};

static char *buffer;
static int disk;
static unsigned int seed;
static aio_context_t context;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

/* Makes the driver refuse all requests, which the block layer then tries again, or accept them. */
static void refuse(const char *value)
{
	int fault = open("/sys/module/vflash/parameters/busy_every", O_WRONLY);

	if (fault < 0 || write(fault, value, 1) != 1)
		die("busy_every");
	close(fault);
}

/* every second block, so that no requests are merged */
static void submit(struct tag tag, unsigned int place)
{
	unsigned int class = tag.level < LEVELS - 1 ? CLASS_RT : CLASS_BE;
	struct iocb cb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = disk,
		.aio_buf = (uintptr_t)buffer,
		.aio_nbytes = BLOCK,
		.aio_offset = place * 2LL * BLOCK,
		.aio_flags = IOCB_FLAG_IOPRIO,
		.aio_reqprio = class << 13 | (tag.level & 7),
	}, *cbs = &cb;

	memcpy(&cb.aio_data, &tag, sizeof(tag));
	if (syscall(SYS_io_submit, context, 1, &cbs) != 1)
		die("io_submit");
}

static void *submit_all(void *argument)
{
	unsigned int thread = (uintptr_t)argument, state = seed + thread, i;
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(thread, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
	for (i = 0; i < READS; i++)
		submit((struct tag){ rand_r(&state) % LEVELS, thread, i }, 1 + thread * READS + i);
	return NULL;
}

int main(int argc, char **argv)
{
	struct io_event events[CPUS_MAX * READS + 1];
	unsigned int threads, i, next[CPUS_MAX] = { 0 }, level = 0, t;
	pthread_t ids[CPUS_MAX];
	char path[128];
	int wrong = 0;
	long n;

	if (argc < 4)
		return 2;
	seed = strtoul(argv[2], NULL, 10);
	threads = atoi(argv[3]);
	if (threads > CPUS_MAX)
		threads = CPUS_MAX;
	snprintf(path, sizeof(path), "/dev/%s", argv[1]);
	disk = open(path, O_RDONLY | O_DIRECT);
	if (disk < 0)
		die(path);
	if (posix_memalign((void **)&buffer, BLOCK, BLOCK))
		die("memory");
	if (syscall(SYS_io_setup, CPUS_MAX * READS + 1, &context))
		die("io_setup");
	refuse("1");
	submit((struct tag){ LEVELS - 1, CPUS_MAX, 0 }, 0);
	for (t = 0; t < threads; t++)
		if (pthread_create(&ids[t], NULL, submit_all, (void *)(uintptr_t)t))
			die("pthread_create");
	for (t = 0; t < threads; t++)
		pthread_join(ids[t], NULL);
	if (argc == 4)
		refuse("0");
	n = syscall(SYS_io_getevents, context, threads * READS + 1, threads * READS + 1, events,
		    NULL);
	if (n != threads * READS + 1)
		die("io_getevents");
	for (i = 0; i < n; i++) {
		struct tag tag;

		memcpy(&tag, &events[i].data, sizeof(tag));
		if (events[i].res < 0) {
			printf("read %u: error %lld\n", i, (long long)events[i].res);
			return 2;
		}
		if (tag.thread == CPUS_MAX) {
			wrong |= i;
			continue;
		}
		if (tag.level > level)
			memset(next, 0, sizeof(next));
		wrong |= tag.level < level || tag.number < next[tag.thread];
		level = tag.level;
		next[tag.thread] = tag.number + 1;
		printf("%u%c%u%s", tag.level, 'a' + tag.thread, tag.number, wrong ? "! " : " ");
	}
	printf("\n%s\n", wrong ? "out of order" : "in order");
	return wrong;
}
