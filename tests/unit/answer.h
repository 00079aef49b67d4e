/* SPDX-License-Identifier: GPL-2.0-only */
/* A shared library that obeys commands (tests/unit/scripts.py). The file that includes this defines obey(), which answers by say(). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Obeys a command. */
static void obey(const char *line);

static char said[1 << 16];
static size_t said_len;

/* Adds to the answer, as printf(). */
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	said_len += vsnprintf(said + said_len, sizeof(said) - said_len, format, arguments);
	va_end(arguments);
	if (said_len >= sizeof(said))
		abort();
}

/* Ends the process: no command is like this one. */
static void __attribute__((noreturn)) refuse(const char *line)
{
	fprintf(stderr, "not a command: %s\n", line);
	abort();
}

/* Obeys a command. Return: the answer, valid until the next call. */
const char *answer(const char *line);

const char *answer(const char *line)
{
	said_len = 0;
	said[0] = '\0';
	obey(line);
	return said;
}
