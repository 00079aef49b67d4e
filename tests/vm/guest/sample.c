// SPDX-License-Identifier: GPL-2.0-only
/*
 * sample DISK BOUND: reads /proc/tailgate/DISK all the time until SIGTERM, then prints the most requests in flight that
 * it ever saw. Exit status 1 if that is more than BOUND.
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
	int fd, most = 0, bound = argc == 3 ? atoi(argv[2]) : 0;
	unsigned long samples = 0;
	char text[8192], *at;
	ssize_t n;

	if (argc != 3)
		return 2;
	signal(SIGTERM, end);
	snprintf(text, sizeof(text), "/proc/tailgate/%s", argv[1]);
	fd = open(text, O_RDONLY);
	if (fd < 0) {
		perror(text);
		return 2;
	}
	for (; !over; samples++) {
		n = pread(fd, text, sizeof(text) - 1, 0);
		if (n <= 0)
			return 2;
		text[n] = 0;
		at = strstr(text, "\ninflight ");
		if (!at)
			return 2;
		if (atoi(at + 10) > most)
			most = atoi(at + 10);
		usleep(3000); /* leave the CPU to the load */
	}
	printf("at most %d in flight (bound %d) in %lu samples\n", most, bound, samples);
	return most > bound;
}
