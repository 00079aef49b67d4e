// SPDX-License-Identifier: GPL-2.0-only
/*
 * paged DISK FILE: reads FILE again and again into two pages that are mapped from DISK and not in memory, until it is killed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, FIRST = 512, PAIRS = 1024 };

int main(int argc, char **argv)
{
	int disk = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	size_t bytes = 2UL * PAGE * PAIRS;
	char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, disk, 0);

	if (pages == MAP_FAILED || madvise(pages, bytes, MADV_RANDOM)) {
		perror("paged");
		return 2;
	}
	for (unsigned int pair = 0;; pair = (pair + 1) % PAIRS) {
		char *buffer = pages + 2UL * PAGE * pair;
		int file;

		if (!pair && (madvise(pages, bytes, MADV_DONTNEED) ||
			      posix_fadvise(disk, 0, bytes, POSIX_FADV_DONTNEED)))
			return 2;
		file = open(argv[2], O_RDONLY);
		if (file < 0)
			continue;
		/* the end of one page, and the next one; the file is shorter while the disk has another scheduler */
		if (read(file, buffer + PAGE - FIRST, FIRST + PAGE) < 0)
			return 3;
		close(file);
	}
}
