// SPDX-License-Identifier: GPL-2.0-only
/* dio LOOP: the loop device reads and writes around the page cache from now on. */
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>

int main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;

	if (fd < 0 || ioctl(fd, LOOP_SET_DIRECT_IO, 1)) {
		perror("dio");
		return 1;
	}
	return 0;
}
