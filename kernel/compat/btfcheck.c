// SPDX-License-Identifier: GPL-2.0-only
/*
 * btfcheck <BTF of the target kernel, raw or in an ELF file> <folder>
 *
 * The block layer's private structures have no public header. This program reads the type information of the kernel that the modules are
 * built for, and writes two headers:
 *
 *   kbtf_features.h   KAPI_* macros: which form of an interface this kernel has
 *   kbtf_asserts.h    a static assertion for the size of each structure that compat/elevator.h and blkcg.h copy, and for the
 *                     offset and the exact C type of each member; the values of enum elv_merge; a declaration of each
 *                     function that we call. A difference is a compile error, never a crash at run time. Type information
 *                     has no macros: a test that depends on BLK_MQ_INSERT_AT_HEAD checks its value (tests/vm, returned).
 *
 * Distributions change these structures within a stable series, so nothing here looks at a version number. Needs only a
 * C compiler, so that DKMS can run it. BTF: Documentation/bpf/btf.rst. Memory is never freed: the program is short.
 */
#include <elf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct btf_header {
	uint16_t magic;
	uint8_t version, flags;
	uint32_t header_bytes, type_offset, type_bytes, string_offset, string_bytes;
};

struct btf_type {
	uint32_t name, info, size_or_type;
};

struct btf_member {
	uint32_t name, type, offset;
};

enum btf_kind {
	KIND_INT = 1,
	KIND_PTR,
	KIND_ARRAY,
	KIND_STRUCT,
	KIND_UNION,
	KIND_ENUM,
	KIND_FWD,
	KIND_TYPEDEF,
	KIND_VOLATILE,
	KIND_CONST,
	KIND_RESTRICT,
	KIND_FUNC,
	KIND_FUNC_PROTO,
	KIND_VAR,
	KIND_DATASEC,
	KIND_FLOAT,
	KIND_DECL_TAG,
	KIND_TYPE_TAG,
	KIND_ENUM64,
};

#define BTF_MAGIC 0xeb9f

static const char *strings;
static struct btf_type **types; /* by id; id 0 is void */
static uint32_t type_count;
static FILE *features, *asserts;

static void die(const char *format, ...)
{
	va_list args;

	fputs("tailgate: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

static void *must(void *allocated)
{
	if (!allocated)
		die("out of memory");
	return allocated;
}

static char *text(const char *format, ...)
{
	va_list args;
	char *result;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	result = must(malloc(n + 1));
	va_start(args, format);
	vsnprintf(result, n + 1, format, args);
	va_end(args);
	return result;
}

static enum btf_kind kind_of(uint32_t id)
{
	return (types[id]->info >> 24) & 0x1f;
}

static uint32_t length_of(uint32_t id)
{
	return types[id]->info & 0xffff;
}

static bool flag_of(uint32_t id)
{
	return types[id]->info >> 31;
}

static const char *name_of(uint32_t id)
{
	return strings + types[id]->name;
}

static size_t trailing_bytes(const struct btf_type *t)
{
	uint32_t n = t->info & 0xffff;

	switch ((t->info >> 24) & 0x1f) {
	case KIND_INT:
	case KIND_VAR:
	case KIND_DECL_TAG:
		return 4;
	case KIND_ARRAY:
		return 12;
	case KIND_STRUCT:
	case KIND_UNION:
	case KIND_DATASEC:
	case KIND_ENUM64:
		return n * 12;
	case KIND_ENUM:
	case KIND_FUNC_PROTO:
		return n * 8;
	default:
		return 0;
	}
}

static bool is_qualifier(uint32_t id)
{
	return kind_of(id) == KIND_CONST || kind_of(id) == KIND_VOLATILE ||
	       kind_of(id) == KIND_TYPE_TAG;
}

/*
 * The C declaration of @inner as an object of type @id, built from the inside out; NULL when the type has no name in C
 * (an anonymous structure).
 */
static char *declare(uint32_t id, const char *inner)
{
	uint32_t *array, *params, i, target;
	char *list, *result;

	if (!id)
		return text("void %s", inner);
	switch (kind_of(id)) {
	case KIND_INT:
	case KIND_TYPEDEF:
	case KIND_FLOAT:
		return text("%s %s", name_of(id), inner);
	case KIND_STRUCT:
		return *name_of(id) ? text("struct %s %s", name_of(id), inner) : NULL;
	case KIND_UNION:
		return *name_of(id) ? text("union %s %s", name_of(id), inner) : NULL;
	case KIND_ENUM:
	case KIND_ENUM64:
		return *name_of(id) ? text("enum %s %s", name_of(id), inner) : NULL;
	case KIND_FWD:
		return text("%s %s %s", flag_of(id) ? "union" : "struct", name_of(id), inner);
	case KIND_PTR:
		target = types[id]->size_or_type;
		while (target && is_qualifier(target))
			target = types[target]->size_or_type;
		if (target && (kind_of(target) == KIND_ARRAY || kind_of(target) == KIND_FUNC_PROTO))
			return declare(types[id]->size_or_type, text("(*%s)", inner));
		return declare(types[id]->size_or_type, text("*%s", inner));
	case KIND_CONST:
	case KIND_VOLATILE:
		target = types[id]->size_or_type;
		list = kind_of(id) == KIND_CONST ? "const" : "volatile";
		if (target && kind_of(target) == KIND_PTR)
			return declare(target, text("%s %s", list, inner));
		result = declare(target, inner);
		return result ? text("%s %s", list, result) : NULL;
	case KIND_RESTRICT:
	case KIND_TYPE_TAG:
		return declare(types[id]->size_or_type, inner);
	case KIND_ARRAY:
		array = (uint32_t *)(types[id] + 1);
		return declare(array[0], text("%s[%u]", inner, array[2]));
	case KIND_FUNC_PROTO:
		params = (uint32_t *)(types[id] + 1);
		list = length_of(id) ? "" : "void";
		for (i = 0; i < length_of(id); i++) {
			char *param = params[2 * i + 1] || params[2 * i] ?
					      declare(params[2 * i + 1], "") :
					      "...";

			if (!param)
				return NULL;
			list = text("%s%s%s", list, i ? ", " : "", param);
		}
		return declare(types[id]->size_or_type, text("%s(%s)", inner, list));
	default:
		return NULL;
	}
}

static uint32_t find(const char *name, enum btf_kind kind)
{
	uint32_t id;

	for (id = 1; id <= type_count; id++)
		if (kind_of(id) == kind && !strcmp(name_of(id), name))
			return id;
	return 0;
}

static const struct btf_member *find_member(const char *structure, const char *member)
{
	uint32_t id = find(structure, KIND_STRUCT), i;
	const struct btf_member *m;

	if (!id)
		return NULL;
	m = (struct btf_member *)(types[id] + 1);
	for (i = 0; i < length_of(id); i++, m++)
		if (!strcmp(strings + m->name, member))
			return m;
	return NULL;
}

static bool has_member(const char *structure, const char *member)
{
	return find_member(structure, member);
}

/* Offset of a member in bytes; -1: there is no such member. */
static long offset_of_member(const char *structure, const char *member)
{
	const struct btf_member *m = find_member(structure, member);

	return m ? (long)(m->offset & 0xffffff) / 8 : -1;
}

/* Does the C type of the member contain @part, for example a parameter of a function pointer? */
static bool member_mentions(const char *structure, const char *member, const char *part)
{
	const struct btf_member *m = find_member(structure, member);
	char *type = m ? declare(m->type, "") : NULL;

	return type && strstr(type, part);
}

static bool function_mentions(const char *function, const char *part)
{
	uint32_t id = find(function, KIND_FUNC);
	char *type = id ? declare(types[id]->size_or_type, "f") : NULL;

	return type && strstr(type, part);
}

static void assert_structure(const char *name)
{
	uint32_t id = find(name, KIND_STRUCT), i, bits, offset;
	const struct btf_member *m;
	char *type;

	if (!id)
		die("the kernel has no struct %s", name);
	fprintf(asserts, "_Static_assert(sizeof(struct %s) == %u, \"size of struct %s\");\n", name,
		types[id]->size_or_type, name);
	m = (struct btf_member *)(types[id] + 1);
	for (i = 0; i < length_of(id); i++, m++) {
		bits = flag_of(id) ? m->offset >> 24 : 0;
		offset = flag_of(id) ? m->offset & 0xffffff : m->offset;
		if (!strings[m->name] || bits || offset % 8)
			continue;
		fprintf(asserts,
			"_Static_assert(offsetof(struct %s, %s) == %u, \"offset of %s in struct %s\");\n",
			name, strings + m->name, offset / 8, strings + m->name, name);
		type = declare(m->type, "");
		if (type)
			fprintf(asserts,
				"_Static_assert(__builtin_types_compatible_p(typeof(((struct %s *)0)->%s), %s), "
				"\"type of %s in struct %s\");\n",
				name, strings + m->name, type, strings + m->name, name);
	}
}

/* Declares a function as the kernel does, so that a difference to our declaration is a compile error. */
static void declare_function(const char *name)
{
	uint32_t id = find(name, KIND_FUNC);
	char *declaration = id ? declare(types[id]->size_or_type, name) : NULL;

	if (!declaration)
		die("the kernel's type information has no %s()", name);
	fprintf(asserts, "extern %s;\n", declaration);
}

/* Asserts that each name in an enum of the kernel has the same value here. */
static void assert_enum(const char *name)
{
	uint32_t id = find(name, KIND_ENUM), i, *value;

	if (!id)
		die("the kernel has no enum %s", name);
	value = (uint32_t *)(types[id] + 1);
	for (i = 0; i < length_of(id); i++, value += 2)
		fprintf(asserts, "_Static_assert(%s == %d, \"%s in enum %s\");\n",
			strings + value[0], (int32_t)value[1], strings + value[0], name);
}

/* Asserts that a typedef is the same type; not for sparse, which takes a __bitwise type for another one. */
static void assert_typedef(const char *name)
{
	uint32_t id = find(name, KIND_TYPEDEF);

	if (!id)
		die("the kernel has no %s", name);
	fprintf(asserts,
		"#ifndef __CHECKER__\n"
		"_Static_assert(__builtin_types_compatible_p(%s, %s), \"type of %s\");\n"
		"#endif\n",
		name, declare(types[id]->size_or_type, ""), name);
}

/* Does the kernel have policies of cgroups in the form that compat/blkcg.h expects? */
static bool has_blkcg(void)
{
	return find("blkcg_policy", KIND_STRUCT) && !offset_of_member("blkcg", "css") &&
	       member_mentions("blkcg", "cpd", "struct blkcg_policy_data *");
}

static void write_features(void)
{
	const struct {
		const char *macro;
		bool value;
	} table[] = {
		{ "KAPI_INIT_SCHED_TAKES_EQ",
		  member_mentions("elevator_mq_ops", "init_sched", "struct elevator_queue *") },
		{ "KAPI_DEPTH_UPDATED_TAKES_Q",
		  member_mentions("elevator_mq_ops", "depth_updated", "struct request_queue *") },
		{ "KAPI_ALLOC_SCHED_DATA", has_member("elevator_mq_ops", "alloc_sched_data") },
		{ "KAPI_INSERT_FLAGS",
		  member_mentions("elevator_mq_ops", "insert_requests", "blk_insert_t") },
		{ "KAPI_ELV_ATTRS_CONST",
		  member_mentions("elevator_type", "elevator_attrs", "const ") },
		{ "KAPI_ELV_FEATURES", has_member("elevator_type", "elevator_features") },
		{ "KAPI_EQ_TAGS", has_member("elevator_queue", "et") },
		{ "KAPI_EQ_FLAGS", has_member("elevator_queue", "flags") },
		{ "KAPI_CACHED_RQS", has_member("blk_mq_alloc_data", "cached_rqs") },
		{ "KAPI_DISK_LIMITS",
		  function_mentions("__blk_mq_alloc_disk", "struct queue_limits *") },
		{ "KAPI_LIMITS_FEATURES", has_member("queue_limits", "features") },
		{ "KAPI_HRTIMER_SETUP", find("hrtimer_setup", KIND_FUNC) },
		{ "KAPI_PER_CPU_LLC_ID", has_member("cpuinfo_topology", "llc_id") },
		{ "KAPI_GET_LLC_ID", find("get_llc_id", KIND_FUNC) },
		{ "KAPI_BLKCG", has_blkcg() },
		{ "KAPI_BLKCG_INIT_BIND", has_member("blkcg_policy", "cpd_init_fn") },
	};
	size_t i;

	for (i = 0; i < sizeof(table) / sizeof(*table); i++)
		fprintf(features, "#define %s %d\n", table[i].macro, table[i].value);
	if (has_blkcg())
		fprintf(features, "#define KAPI_BLKCG_CPD %ld\n", offset_of_member("blkcg", "cpd"));
}

/* The part of an ELF file of 64 bits that holds type information: KDIR/vmlinux is such a file. */
static uint8_t *find_section(uint8_t *data, long *size)
{
	const Elf64_Ehdr *elf = (void *)data;
	const Elf64_Shdr *sections, *names;
	int i;

	if ((size_t)*size < sizeof(*elf) || memcmp(elf->e_ident, ELFMAG, SELFMAG) ||
	    elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_shoff > (uint64_t)*size ||
	    elf->e_shnum > (*size - elf->e_shoff) / sizeof(*sections) ||
	    elf->e_shstrndx >= elf->e_shnum)
		return data;
	sections = (void *)(data + elf->e_shoff);
	names = &sections[elf->e_shstrndx];
	for (i = 0; i < elf->e_shnum; i++) {
		uint64_t name = names->sh_offset + sections[i].sh_name;

		if (names->sh_offset < (uint64_t)*size && name < (uint64_t)*size &&
		    !strcmp((char *)data + name, ".BTF") &&
		    sections[i].sh_offset <= (uint64_t)*size &&
		    sections[i].sh_size <= *size - sections[i].sh_offset) {
			*size = sections[i].sh_size;
			return data + sections[i].sh_offset;
		}
	}
	return data;
}

static void load(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct btf_header *header;
	uint8_t *data, *at, *end;
	long size;

	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
		die("cannot read %s", path);
	rewind(file);
	data = must(malloc(size + 1));
	if (fread(data, 1, size, file) != (size_t)size)
		die("cannot read %s", path);
	fclose(file);
	data[size] = 0;
	data = find_section(data, &size);
	header = (void *)data;
	if ((size_t)size < sizeof(*header) || header->magic != BTF_MAGIC ||
	    (uint64_t)header->header_bytes + header->type_offset + header->type_bytes >
		    (uint64_t)size ||
	    (uint64_t)header->header_bytes + header->string_offset + header->string_bytes >
		    (uint64_t)size)
		die("%s holds no kernel type information (BTF)", path);
	strings = (char *)data + header->header_bytes + header->string_offset;
	at = data + header->header_bytes + header->type_offset;
	end = at + header->type_bytes;
	types = must(calloc(header->type_bytes / sizeof(**types) + 2, sizeof(*types)));
	while (at + sizeof(**types) <= end) {
		types[++type_count] = (void *)at;
		at += sizeof(**types) + trailing_bytes((void *)at);
	}
}

int main(int argc, char **argv)
{
	static const char *const structures[] = {
		"elevator_mq_ops", "elevator_type",	"elevator_queue",
		"elv_fs_entry",	   "blk_mq_alloc_data",
	};
	static const char *const functions[] = {
		"elv_register",
		"elv_unregister",
		"elv_rqhash_add",
		"elv_rqhash_del",
		"blk_mq_sched_try_merge",
		"blk_mq_sched_try_insert_merge",
		"blk_bio_list_merge",
		"blk_mq_run_hw_queue",
		"blk_mq_run_hw_queues",
		"blk_mq_free_request",
		"sbitmap_queue_get_shallow",
		"sbitmap_queue_min_shallow_depth",
	};
	size_t i;

	if (argc != 3)
		die("usage: btfcheck <BTF of the target kernel> <folder>");
	load(argv[1]);
	features = fopen(text("%s/kbtf_features.h", argv[2]), "w");
	asserts = fopen(text("%s/kbtf_asserts.h", argv[2]), "w");
	if (!features || !asserts)
		die("cannot write to %s", argv[2]);
	fputs("/* SPDX-License-Identifier: GPL-2.0-only */\n/* made by btfcheck from the target kernel's types */\n",
	      features);
	fputs("/* SPDX-License-Identifier: GPL-2.0-only */\n/* made by btfcheck from the target kernel's types */\n",
	      asserts);
	write_features();
	for (i = 0; i < sizeof(structures) / sizeof(*structures); i++)
		assert_structure(structures[i]);
	for (i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		declare_function(functions[i]);
	if (!member_mentions("elevator_mq_ops", "init_sched", "struct elevator_queue *"))
		declare_function("elevator_alloc");
	if (has_blkcg()) {
		assert_structure("blkcg_policy");
		assert_structure("blkcg_policy_data");
		declare_function("blkcg_policy_register");
		declare_function("blkcg_policy_unregister");
	}
	assert_enum("elv_merge");
	if (member_mentions("elevator_mq_ops", "insert_requests", "blk_insert_t"))
		assert_typedef("blk_insert_t");
	if (fclose(features) || fclose(asserts))
		die("cannot write to %s", argv[2]);
	return 0;
}
