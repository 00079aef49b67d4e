// SPDX-License-Identifier: GPL-2.0-only
/*
 * sample FILE DISK BOUND: samples a scheduler's statistics until SIGTERM, then prints the highest number of requests in flight
 * that it saw. Exit status 1 if that is more than BOUND.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t over;

static void end(int signal)
{
	(void)signal;
	over = 1;
}

int main(int argc, char **argv)
{
	int fd, most = 0, bound = argc == 4 ? atoi(argv[3]) : 0;
	unsigned long samples = 0;
	static char text[1 << 16];
	char key[64], *at;
	ssize_t n;

	if (argc != 4)
		return 2;
	signal(SIGTERM, end);
	snprintf(key, sizeof(key), "\n%s inflight ", argv[2]);
	fd = open(argv[1], O_RDONLY);
	if (fd < 0) {
		perror(argv[1]);
		return 2;
	}
	for (; !over; samples++) {
		n = pread(fd, text, sizeof(text) - 1, 0);
		if (n <= 0)
			return 2;
		text[n] = 0;
		at = strstr(text, key);
		if (!at)
			return 2;
		if (atoi(at + strlen(key)) > most)
			most = atoi(at + strlen(key));
		usleep(3000); /* leave the CPU to the load */
	}
	printf("at most %d in flight (bound %d) in %lu samples\n", most, bound, samples);
	return most > bound;
}
