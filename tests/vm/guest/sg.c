// SPDX-License-Identifier: GPL-2.0-only
/*
 * sg DISK THREADS: each thread reads 4 KiB from the beginning of a SCSI disk by SG_IO, as passthrough commands, one after the
 * other until SIGTERM. Exit status 1 when one fails.
 */
#include <fcntl.h>
#include <pthread.h>
#include <scsi/sg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static volatile sig_atomic_t over;
static int fd;

static void end(int signal)
{
	(void)signal;
	over = 1;
}

static void *reads(void *unused)
{
	unsigned char command[10] = { 0x28, [8] = 8 }, sense[32];
	unsigned long count = 0;
	void *data = malloc(4096);
	struct sg_io_hdr io = {
		.interface_id = 'S',
		.dxfer_direction = SG_DXFER_FROM_DEV,
		.cmd_len = sizeof(command),
		.cmdp = command,
		.mx_sb_len = sizeof(sense),
		.sbp = sense,
		.dxfer_len = 4096,
		.dxferp = data,
		.timeout = 20000,
	};

	(void)unused;
	for (; !over; count++)
		if (ioctl(fd, SG_IO, &io) || io.status || io.host_status) {
			perror("SG_IO");
			exit(1);
		}
	return (void *)count;
}

int main(int argc, char **argv)
{
	int i, threads = argc == 3 ? atoi(argv[2]) : 0;
	unsigned long count = 0;
	pthread_t *ids = calloc(threads + 1, sizeof(*ids));
	void *part;

	fd = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	if (fd < 0 || threads < 1 || !ids)
		return 2;
	signal(SIGTERM, end);
	for (i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, reads, NULL))
			return 2;
	for (i = 0; i < threads; i++) {
		pthread_join(ids[i], &part);
		count += (unsigned long)part;
	}
	printf("%lu passthrough reads\n", count);
	return 0;
}
