// SPDX-License-Identifier: GPL-2.0-only
/*
 * put FILE TEXT: writes TEXT (with \n for a newline) by one write(2) and prints what it returned: the number of bytes,
 * or the error's name. A shell's echo would hide both.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>

int main(int argc, char **argv)
{
	char text[256], *to = text;
	const char *from;
	ssize_t n;
	int fd;

	if (argc != 3 || strlen(argv[2]) >= sizeof(text))
		return 2;
	for (from = argv[2]; *from; from++)
		*to++ = from[0] == '\\' && from[1] == 'n' ? (from++, '\n') : *from;
	fd = open(argv[1], O_WRONLY);
	if (fd < 0) {
		perror(argv[1]);
		return 2;
	}
	n = write(fd, text, to - text);
	if (n < 0)
		puts(strerrorname_np(errno));
	else
		printf("%zd\n", n);
	return 0;
}
