// SPDX-License-Identifier: GPL-2.0-only
/*
 * failing N write FILE TEXT | read FILE | unload MODULE: makes one system call in which the Nth allocation fails
 * (/proc/thread-self/fail-nth: Documentation/fault-injection). Prints the result: "ok" or the error's name. Exit
 * status: 0 if an allocation failed, 1 if the call made fewer than N, 2 if the call could not be made.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int cannot(const char *what)
{
	perror(what);
	return 2;
}

int main(int argc, char **argv)
{
	static char buffer[65536];
	const char *call = argc > 3 ? argv[2] : "", *file = argc > 3 ? argv[3] : "";
	int fail_nth = open("/proc/thread-self/fail-nth", O_RDWR), fd = -1, saved;
	char left[16] = "";
	long result;

	if (fail_nth < 0)
		return cannot("fail-nth");
	if (strcmp(call, "unload")) {
		fd = open(file, strcmp(call, "write") ? O_RDONLY : O_WRONLY);
		if (fd < 0)
			return cannot(file);
	}
	memset(buffer, 1, sizeof(buffer)); /* so that no page fault allocates later */
	if (write(fail_nth, argv[1], strlen(argv[1])) < 0)
		return cannot("fail-nth");
	if (!strcmp(call, "write") && argc == 5)
		result = write(fd, argv[4], strlen(argv[4]));
	else if (!strcmp(call, "read"))
		result = read(fd, buffer, sizeof(buffer));
	else if (!strcmp(call, "unload"))
		result = syscall(SYS_delete_module, file, O_NONBLOCK);
	else
		result = -1, errno = EINVAL;
	saved = errno;
	/* if reading the file itself takes the failure, the call made fewer than N */
	if (pread(fail_nth, left, sizeof(left) - 1, 0) < 0)
		strcpy(left, "1");
	if (pwrite(fail_nth, "0", 1, 0) < 0)
		return cannot("fail-nth");
	puts(result < 0 ? strerrorname_np(saved) : "ok");
	return atoi(left) ? 1 : 0;
}
