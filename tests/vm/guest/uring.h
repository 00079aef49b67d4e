/* SPDX-License-Identifier: GPL-2.0-only */
/* io_uring by its system calls, for the guest's static programs. */
#ifndef URING_H
#define URING_H

#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct uring {
	int fd;
	struct io_uring_params params;
	unsigned int *sq_tail, *sq_array, *cq_head, *cq_tail;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static void die(const char *what)
{
	perror(what);
	exit(2);
}

static void *uring_map(const struct uring *u, size_t size, long long offset)
{
	void *at =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, u->fd, offset);

	if (at == MAP_FAILED)
		die("mmap of a ring");
	return at;
}

static void uring_open(struct uring *u, unsigned int entries, unsigned int flags)
{
	struct io_uring_params *p = &u->params;
	char *sq, *cq;

	*p = (struct io_uring_params){ .flags = flags };
	u->fd = syscall(SYS_io_uring_setup, entries, p);
	if (u->fd < 0)
		die("io_uring_setup");
	sq = uring_map(u, p->sq_off.array + p->sq_entries * sizeof(*u->sq_array),
		       IORING_OFF_SQ_RING);
	cq = uring_map(u, p->cq_off.cqes + p->cq_entries * sizeof(*u->cqes), IORING_OFF_CQ_RING);
	u->sqes = uring_map(u, p->sq_entries * sizeof(*u->sqes), IORING_OFF_SQES);
	u->sq_tail = (unsigned int *)(sq + p->sq_off.tail);
	u->sq_array = (unsigned int *)(sq + p->sq_off.array);
	u->cq_head = (unsigned int *)(cq + p->cq_off.head);
	u->cq_tail = (unsigned int *)(cq + p->cq_off.tail);
	u->cqes = (struct io_uring_cqe *)(cq + p->cq_off.cqes);
}

/* The free slot number `ahead`, from 0, after those submitted so far. */
static struct io_uring_sqe *uring_slot(struct uring *u, unsigned int ahead)
{
	unsigned int slot = (*u->sq_tail + ahead) & (u->params.sq_entries - 1);

	u->sq_array[slot] = slot;
	return &u->sqes[slot];
}

/* Submits the next `count` slots, in one system call, and awaits the ends of `least` requests. */
static void uring_submit(struct uring *u, unsigned int count, unsigned int least)
{
	unsigned int flags = IORING_ENTER_SQ_WAKEUP | (least ? IORING_ENTER_GETEVENTS : 0);

	__atomic_store_n(u->sq_tail, *u->sq_tail + count, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, u->fd, count, least, flags, NULL, 0) != (long)count)
		die("io_uring_enter");
}

/* Awaits the end of a request, or polls for it. Returns its result, and stores its user_data. */
static int uring_end(struct uring *u, uint64_t *data)
{
	struct io_uring_cqe *cqe;
	int result;

	while (*u->cq_head == __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE))
		if (syscall(SYS_io_uring_enter, u->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			die("io_uring_enter");
	cqe = &u->cqes[*u->cq_head & (u->params.cq_entries - 1)];
	result = cqe->res;
	*data = cqe->user_data;
	__atomic_store_n(u->cq_head, *u->cq_head + 1, __ATOMIC_RELEASE);
	return result;
}

#endif
