// SPDX-License-Identifier: GPL-2.0-only
/* Compiles flash/ for the simulator, and checks that the operations of a die do not overlap. */
#include <stdlib.h>

#include "drive.h"

static void sim_drive_witness(u32 die, u64 start_ns, u64 end_ns);
#define flash_die_traced(die, op, start_ns, end_ns) sim_drive_witness(die, start_ns, end_ns)
#include "../flash/flash.c"

const struct flash_parameter_info *const sim_drive_parameters = flash_parameter_infos;
const u32 sim_drive_parameter_count = ARRAY_SIZE(flash_parameter_infos);

/* End of the last operation, by die, of the drive that this thread created last. */
static _Thread_local u64 busy_until_ns[256];
static _Thread_local u64 overlaps;

static void sim_drive_witness(u32 die, u64 start_ns, u64 end_ns)
{
	overlaps += start_ns < busy_until_ns[die] || end_ns < start_ns;
	busy_until_ns[die] = end_ns;
}

struct flash *sim_drive_create(const struct flash_parameters *parameters,
			       const struct flash_parameter_info **wrong, const char **expected)
{
	struct flash_parameters p = *parameters;
	struct flash *drive;
	u32 i;

	*wrong = flash_check(&p, expected);
	if (*wrong)
		return NULL;
	drive = calloc(1, flash_size(&p));
	if (!drive)
		return NULL;
	flash_init(drive, &p);
	for (i = 0; i < ARRAY_SIZE(busy_until_ns); i++)
		busy_until_ns[i] = 0;
	overlaps = 0;
	return drive;
}

void sim_drive_destroy(struct flash *drive)
{
	free(drive);
}

void sim_drive_expect(const struct flash *drive, u64 sector)
{
	__builtin_prefetch(&drive->places[sector >> drive->unit_shift]);
}

void sim_drive_submit(struct flash *drive, u32 queue, struct flash_command *command, u64 now_ns)
{
	flash_submit(drive, queue, command, now_ns);
}

void sim_drive_advance(struct flash *drive, u64 now_ns, struct list_head *done)
{
	flash_advance(drive, now_ns, done);
}

u64 sim_drive_next_ns(const struct flash *drive)
{
	return flash_next_ns(drive);
}

u64 sim_drive_overlaps(void)
{
	return overlaps;
}
