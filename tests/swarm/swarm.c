// SPDX-License-Identifier: GPL-2.0-only
/*
 * swarm SCHEDULER FIRST COUNT [brief]    play the scenarios of COUNT seeds from FIRST on; COUNT 0: until stopped
 * swarm SCHEDULER -                      play the scenario on standard input
 *
 * Exit status: 0, every law held; 1, a law is broken, and the seed, the law and, unless brief, the shortest scenario found are printed; 2,
 * usage.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "play.h"
#include "subject.h"

static char law[512];

/* The broken law, without the numbers in its text. */
static void name_law(char *name, size_t size, const char *failure)
{
	size_t used = 0;

	for (; *failure && used + 1 < size; failure++)
		if (*failure < '0' || *failure > '9')
			name[used++] = *failure;
	name[used] = 0;
}

static bool breaks_the_same(const struct scenario *s)
{
	char name[512];
	const char *failure = play(s);

	if (!failure)
		return false;
	name_law(name, sizeof(name), failure);
	return !strcmp(name, law);
}

static int report(struct scenario *s, const char *failure)
{
	name_law(law, sizeof(law), failure);
	scenario_shrink(s, breaks_the_same);
	failure = play(s);
	printf("%s\n", failure ? failure : "it does not happen again");
	scenario_print(s, stdout);
	return 1;
}

static int play_seeds(unsigned long long first, unsigned long long count, bool brief)
{
	static struct scenario s;
	unsigned long long i;
	time_t begun = time(NULL), told = begun;

	for (i = 0; !count || i < count; i++) {
		const char *failure;

		scenario_draw(&s, first + i);
		failure = play(&s);
		if (failure) {
			printf("seed %llu: %s\n", first + i, failure);
			if (brief)
				return 1;
			printf("as short as it was found:\n");
			fflush(stdout);
			return report(&s, failure);
		}
		if (time(NULL) >= told + 10) {
			told = time(NULL);
			fprintf(stderr, "%llu scenarios, %llu requests, %lld s\n", i + 1,
				(unsigned long long)play_requests(), (long long)(told - begun));
		}
	}
	printf("%llu scenarios from seed %llu, %llu requests: every law held\n", count, first,
	       (unsigned long long)play_requests());
	return 0;
}

static int play_input(void)
{
	static struct scenario s;
	char wrong[64];
	const char *failure;

	if (!scenario_read(&s, stdin, wrong, sizeof(wrong))) {
		fprintf(stderr, "swarm: not understood: %s\n", wrong);
		return 2;
	}
	failure = play(&s);
	if (!failure) {
		printf("every law held\n");
		return 0;
	}
	printf("%s\n", failure);
	return 1;
}

static bool find_subject(const char *name)
{
	const struct subject *const *s = subjects;

	while (*s && strcmp((*s)->name, name))
		s++;
	subject = *s;
	return subject;
}

static int usage(void)
{
	fprintf(stderr, "usage: swarm SCHEDULER FIRST_SEED COUNT [brief] | swarm SCHEDULER -\n");
	return 2;
}

int main(int argc, char **argv)
{
	char *end = NULL;

	if (argc < 3 || !find_subject(argv[1]))
		return usage();
	if (argc == 3 && !strcmp(argv[2], "-"))
		return play_input();
	if (argc == 4 || (argc == 5 && !strcmp(argv[4], "brief"))) {
		unsigned long long first = strtoull(argv[2], &end, 10), count;

		if (*argv[2] && !*end) {
			count = strtoull(argv[3], &end, 10);
			if (*argv[3] && !*end)
				return play_seeds(first, count, argc == 5);
		}
	}
	return usage();
}
