// SPDX-License-Identifier: GPL-2.0-only
/*
 * pieces DISK SEED ORIGINALS MAX_SECTORS_KB FAULTS: reads and writes of random sizes and places, by pread, io_submit
 * and io_uring, real-time or not, under a random split_kib and inflight_max. For each original it checks, by the block
 * layer's tracepoints, that
 *
 * - inserted, issued and completed requests cover it once, in pieces of split_kib from its beginning;
 * - pieces are inserted in order, unless the block layer split it too (MAX_SECTORS_KB up to 1024): then the parts alternate;
 * - it ends once, after its pieces, with its size, or with the error of the piece that failed first. With FAULTS
 *   vflash fails some sectors (ENODATA) and one in some number of requests (EIO);
 * - sectors that were read have the data that were written to them.
 *
 * Prints a line: "split", the number of originals split, the number of their pieces. Exit status 1 and a message on failure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum {
	SECTOR = 512,
	SECTORS_MAX = 2048,
	SLOT = 8192, /* sectors of a slot; each original of a batch has a slot of its own */
	SLOTS = 60,
	BATCH = 6,
	IOPRIO_WHO_PROCESS = 1,
	RT = 1 << 13 | 3,
	PENDING = -4096 /* no result yet */
};
enum engine { PSYNC, AIO, URING, ENGINES };
enum event { INSERT, ISSUE, COMPLETE, EVENTS };
static const char *const event_names[] = { "block_rq_insert: ", "block_rq_issue: ",
					   "block_rq_complete: " };

struct part {
	unsigned long long sector;
	unsigned int sectors;
};

static struct original {
	unsigned long long sector;
	unsigned int sectors, ends;
	bool write, rt;
	long result;
	int first_error; /* the earliest */
	bool errors[2]; /* did a piece end with EIO, with ENODATA? */
	unsigned int counts[EVENTS];
	struct part parts[EVENTS][SECTORS_MAX];
	char *buffer;
} originals[BATCH];

static unsigned int state, max_sectors, piece_sectors, inflight_max, bad_sectors;
static unsigned long long bad_sector;
static int disk, trace;
static aio_context_t context;
static struct {
	int fd;
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
} ring;

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static unsigned int below(unsigned int most)
{
	return rand_r(&state) % most;
}

static void put(const char *folder, const char *name, unsigned long long value)
{
	char path[160];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	if (!file || fprintf(file, "%llu\n", value) < 0 || fclose(file))
		die(path);
}

static void *map(size_t length, off_t at)
{
	void *found =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, at);

	if (found == MAP_FAILED)
		die("mmap");
	return found;
}

/* Stays on one CPU: on another CPU, pieces go to another hardware queue, and have no order. */
static void stay_on(unsigned int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
}

static void set_up_ring(void)
{
	struct io_uring_params p = { 0 };
	cpu_set_t cpus;
	char *sq, *cq;

	ring.fd = syscall(SYS_io_uring_setup, BATCH, &p);
	if (ring.fd < 0)
		die("io_uring_setup");
	sq = map(p.sq_off.array + p.sq_entries * sizeof(unsigned int), IORING_OFF_SQ_RING);
	cq = map(p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	ring.sqes = map(p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
	ring.sq_tail = (unsigned int *)(sq + p.sq_off.tail);
	ring.sq_mask = (unsigned int *)(sq + p.sq_off.ring_mask);
	ring.sq_array = (unsigned int *)(sq + p.sq_off.array);
	ring.cq_head = (unsigned int *)(cq + p.cq_off.head);
	ring.cq_tail = (unsigned int *)(cq + p.cq_off.tail);
	ring.cq_mask = (unsigned int *)(cq + p.cq_off.ring_mask);
	ring.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	/* io_uring's workers submit requests that may block; they stay on the same CPU */
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_IOWQ_AFF, &cpus, sizeof(cpus)))
		die("IORING_REGISTER_IOWQ_AFF");
}

/* --- one batch --------------------------------------------------------------------------------------------------- */

static void choose(struct original *o, unsigned int slot)
{
	static const unsigned int sizes[] = { 16, 128, 1024 };
	unsigned int skip = below(8), i;
	char *buffer = o->buffer;

	o->sectors = 1 + below(sizes[below(3)]);
	if (!below(16))
		o->sectors = SECTORS_MAX;
	if (o->sectors > SECTORS_MAX - 8)
		skip = 0; /* limits the pages to those of one bio */
	o->sector = (unsigned long long)slot * SLOT + below(SLOT - SECTORS_MAX - 1);
	o->write = below(2);
	o->rt = !below(6);
	o->result = PENDING;
	o->ends = o->first_error = 0;
	memset(o->errors, 0, sizeof(o->errors));
	memset(o->counts, 0, sizeof(o->counts));
	/* a sector contains its number, or zeroes if it was not written */
	for (i = 0; i < o->sectors + skip; i++)
		*(unsigned long long *)(buffer + i * SECTOR) = o->write ? o->sector + i - skip :
									  ~0ULL;
	o->buffer += skip * SECTOR;
}

static void end(struct original *o, long result)
{
	o->result = result;
	o->ends++;
}

static void by_psync(struct original *o)
{
	long n;

	if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, o->rt ? RT : 0))
		die("ioprio_set");
	n = o->write ? pwrite(disk, o->buffer, o->sectors * SECTOR, o->sector * SECTOR) :
		       pread(disk, o->buffer, o->sectors * SECTOR, o->sector * SECTOR);
	end(o, n < 0 ? -errno : n);
	if (syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0))
		die("ioprio_set");
}

static void by_aio(unsigned int count)
{
	struct iocb cbs[BATCH], *at[BATCH];
	struct io_event events[BATCH + 1];
	struct timespec none = { 0 };
	unsigned int i;
	long n;

	for (i = 0; i < count; i++) {
		struct original *o = &originals[i];

		cbs[i] = (struct iocb){
			.aio_lio_opcode = o->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
			.aio_fildes = disk,
			.aio_buf = (uintptr_t)o->buffer,
			.aio_nbytes = o->sectors * SECTOR,
			.aio_offset = o->sector * SECTOR,
			.aio_data = i,
			.aio_flags = IOCB_FLAG_IOPRIO,
			.aio_reqprio = o->rt ? RT : 0,
		};
		at[i] = &cbs[i];
	}
	if (syscall(SYS_io_submit, context, count, at) != count)
		die("io_submit");
	n = syscall(SYS_io_getevents, context, count, BATCH + 1, events, NULL);
	if (n < 0)
		die("io_getevents");
	for (i = 0; i < n; i++)
		end(&originals[events[i].data], events[i].res);
	if (syscall(SYS_io_getevents, context, 0, 1, events, &none))
		end(&originals[events[0].data], events[0].res);
}

static void by_uring(unsigned int count)
{
	unsigned int tail = *ring.sq_tail, head, i;

	for (i = 0; i < count; i++, tail++) {
		struct original *o = &originals[i];

		ring.sqes[tail & *ring.sq_mask] = (struct io_uring_sqe){
			.opcode = o->write ? IORING_OP_WRITE : IORING_OP_READ,
			.fd = disk,
			.addr = (uintptr_t)o->buffer,
			.len = o->sectors * SECTOR,
			.off = o->sector * SECTOR,
			.user_data = i,
			.ioprio = o->rt ? RT : 0,
		};
		ring.sq_array[tail & *ring.sq_mask] = tail & *ring.sq_mask;
	}
	__atomic_store_n(ring.sq_tail, tail, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.fd, count, count, IORING_ENTER_GETEVENTS, NULL, 0) !=
	    count)
		die("io_uring_enter");
	head = *ring.cq_head;
	while (head != __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE)) {
		struct io_uring_cqe *c = &ring.cqes[head++ & *ring.cq_mask];

		end(&originals[c->user_data], c->res);
	}
	__atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
}

/* --- tracepoints ------------------------------------------------------------------------------------------------- */

static void note(const char *line, enum event event, const char *about, unsigned int count)
{
	const char *at = strstr(about, ") ");
	unsigned long long sector;
	unsigned int sectors, i;
	char op[16];

	if (!at || sscanf(about, "%*u,%*u %15s", op) != 1 ||
	    sscanf(at + 2, "%llu + %u", &sector, &sectors) != 2) {
		printf("unknown line of the trace: %s\n", line);
		exit(1);
	}
	if (!sectors) /* a request that was taken apart ends without data */
		return;
	for (i = 0; i < count; i++) {
		struct original *o = &originals[i];
		unsigned int *n = &o->counts[event];
		int error = 0;

		if (sector < o->sector || sector >= o->sector + o->sectors)
			continue;
		if (*n == SECTORS_MAX || (*op == 'W') != o->write) {
			printf("too many parts, or a wrong operation: %s\n", line);
			exit(1);
		}
		o->parts[event][(*n)++] = (struct part){ sector, sectors };
		if (event == COMPLETE)
			error = -atoi(strrchr(line, '[') + 1);
		if (error && !o->first_error)
			o->first_error = error;
		o->errors[0] |= error == EIO;
		o->errors[1] |= error == ENODATA;
		if (error && error != EIO && error != ENODATA) {
			printf("unexpected error: %s\n", line);
			exit(1);
		}
		return;
	}
	printf("belongs to no original: %s\n", line);
	exit(1);
}

/* Reads the trace so far; with count 0, discards it. */
static void read_trace(unsigned int count)
{
	static char text[1 << 16];
	size_t had = 0;
	ssize_t n;

	while ((n = read(trace, text + had, sizeof(text) - 1 - had)) > 0) {
		char *line = text, *newline;

		text[had + n] = '\0';
		for (; (newline = strchr(line, '\n')); line = newline + 1) {
			enum event event;
			char *at;

			*newline = '\0';
			if (strstr(line, "LOST"))
				die(line);
			for (event = 0; event < EVENTS; event++)
				if (count && (at = strstr(line, event_names[event])))
					note(line, event, at + strlen(event_names[event]), count);
		}
		had = strlen(line);
		memmove(text, line, had);
	}
	if (n < 0 && errno != EAGAIN)
		die("trace_pipe");
}

/* --- checks ------------------------------------------------------------------------------------------------------ */

static void complain(const struct original *o, const char *engine, const char *what)
{
	enum event event;
	unsigned int i;

	printf("%s: %s of %u sectors at %llu, %s, split_kib %u, inflight_max %u, bad sectors %llu + %u: result %ld, "
	       "ended %u times, first error of a piece %d\n",
	       what, o->write ? "write" : "read", o->sectors, o->sector, engine, piece_sectors / 2,
	       inflight_max, bad_sector, bad_sectors, o->result, o->ends, o->first_error);
	for (event = 0; event < EVENTS; event++) {
		printf("%s", event_names[event]);
		for (i = 0; i < o->counts[event] && i < 24; i++)
			printf("%llu+%u ", o->parts[event][i].sector - o->sector,
			       o->parts[event][i].sectors);
		printf("%s(%u)\n", i < o->counts[event] ? "... " : "", o->counts[event]);
	}
	exit(1);
}

static int by_sector(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->sector < y->sector ? -1 : x->sector > y->sector;
}

/* Checks that pieces cover the original once; they have the size of a piece if only the scheduler splits. */
static bool covers(const struct original *o, const struct part *parts, unsigned int count,
		   unsigned int step)
{
	unsigned long long next = o->sector, last = o->sector + o->sectors;
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (parts[i].sector != next)
			return false;
		next += parts[i].sectors;
		if (step && next != last && parts[i].sectors != step)
			return false;
	}
	return next == last;
}

static void check(struct original *o, const char *engine)
{
	unsigned int step = !o->rt && piece_sectors ? piece_sectors : SECTORS_MAX, i;
	bool cut_once = max_sectors > SECTORS_MAX, bad = false;
	enum event event;

	for (event = 0; event < EVENTS; event++) {
		struct part *parts = o->parts[event];
		unsigned int n = o->counts[event];

		if (event == INSERT && cut_once && !covers(o, parts, n, step))
			complain(o, engine, "not inserted in order");
		qsort(parts, n, sizeof(*parts), by_sector);
		if (!covers(o, parts, n, cut_once ? step : 0))
			complain(o, engine, "not covered once");
		for (i = 0; i < n; i++)
			if (parts[i].sectors > (step < max_sectors ? step : max_sectors))
				complain(o, engine, "a piece is too large");
	}
	for (i = 0; i < o->counts[COMPLETE]; i++) {
		struct part *p = &o->parts[COMPLETE][i];

		bad |= bad_sectors && p->sector < bad_sector + bad_sectors &&
		       p->sector + p->sectors > bad_sector;
	}
	if (o->ends != 1)
		complain(o, engine, "did not end exactly once");
	if (bad != o->errors[1] && !o->errors[0])
		complain(o, engine, "ENODATA without a bad sector, or none with one");
	if (!o->first_error && o->result != (long)o->sectors * SECTOR)
		complain(o, engine, "a wrong result, but no piece failed");
	if (o->first_error &&
	    !((o->result == -EIO && o->errors[0]) || (o->result == -ENODATA && o->errors[1])))
		complain(o, engine, "not an error of a piece");
	/* pieces that end at the same time on two CPUs have no order */
	if (cut_once && inflight_max == 1 && o->first_error && o->result != -o->first_error)
		complain(o, engine, "not the first error");
	for (i = 0; !o->write && !o->first_error && i < o->sectors; i++) {
		unsigned long long found = *(unsigned long long *)(o->buffer + i * SECTOR);

		if (found && found != o->sector + i) {
			printf("sector %llu + %u has the data of sector %llu\n", o->sector, i,
			       found);
			complain(o, engine, "wrong data");
		}
	}
}

int main(int argc, char **argv)
{
	static const unsigned int splits[] = { 0, 4, 8, 12, 16, 64, 100, 248 };
	static const unsigned int bounds[] = { 1, 1, 4, 32 };
	static const char *const engines[] = { "psync", "libaio", "io_uring" };
	const char *tracing = "/sys/kernel/tracing", *faults = "/sys/module/vflash/parameters";
	unsigned int left, split = 0, pieces = 0, failed = 0, i;
	char path[128], iosched[128];

	if (argc != 6)
		return 2;
	state = strtoul(argv[2], NULL, 10);
	left = atoi(argv[3]);
	max_sectors = atoi(argv[4]) * 2;
	snprintf(path, sizeof(path), "/dev/%s", argv[1]);
	snprintf(iosched, sizeof(iosched), "/sys/block/%s/queue/iosched", argv[1]);
	disk = open(path, O_RDWR | O_DIRECT);
	if (disk < 0)
		die(path);
	for (i = 0; i < BATCH; i++)
		if (posix_memalign((void **)&originals[i].buffer, 4096, (SECTORS_MAX + 8) * SECTOR))
			die("memory");
	if (syscall(SYS_io_setup, BATCH, &context))
		die("io_setup");
	set_up_ring();
	trace = open("/sys/kernel/tracing/trace_pipe", O_RDONLY | O_NONBLOCK);
	if (trace < 0)
		die("trace_pipe");
	put(tracing, "buffer_size_kb", 2048);
	put(tracing, "tracing_on", 1); /* a part before may have switched it off */
	for (i = 0; i < EVENTS; i++) {
		snprintf(path, sizeof(path), "events/block/%.*s/enable",
			 (int)strlen(event_names[i]) - 2, event_names[i]);
		put(tracing, path, 1);
	}
	read_trace(0);

	while (left) {
		enum engine engine = below(ENGINES);
		unsigned int count = engine == PSYNC ? 1 : 1 + below(BATCH), slot = below(SLOTS);

		if (count > left)
			count = left;
		left -= count;
		piece_sectors = splits[below(sizeof(splits) / sizeof(*splits))] * 2;
		inflight_max = bounds[below(sizeof(bounds) / sizeof(*bounds))];
		put(iosched, "split_kib", piece_sectors / 2);
		put(iosched, "inflight_max", inflight_max);
		stay_on(below(get_nprocs()));
		for (i = 0; i < count; i++)
			choose(&originals[i], (slot + i) % SLOTS);
		if (atoi(argv[5])) {
			struct original *victim = &originals[below(count)];

			bad_sector = victim->sector + below(victim->sectors);
			bad_sectors = below(3) ? 1 + below(below(2) ? 4 : 256) : 0;
			put(faults, "bad_sector", bad_sector);
			put(faults, "bad_sectors", bad_sectors);
			put(faults, "error_every", below(3) ? 0 : 2 + below(40));
		}
		if (engine == PSYNC)
			by_psync(originals);
		else
			(engine == AIO ? by_aio : by_uring)(count);
		read_trace(count);
		for (i = 0; i < count; i++) {
			struct original *o = &originals[i];

			check(o, engines[engine]);
			failed += !!o->first_error;
			if (!o->rt && piece_sectors && o->sectors > piece_sectors) {
				split++;
				pieces += o->counts[INSERT];
			}
			o->buffer -= (uintptr_t)o->buffer % 4096;
		}
	}
	put(tracing, "events/block/enable", 0);
	put(faults, "bad_sectors", 0);
	put(faults, "error_every", 0);
	printf("split %u %u\n%u originals failed\n", split, pieces, failed);
	return 0;
}
