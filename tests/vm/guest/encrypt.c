// SPDX-License-Identifier: GPL-2.0-only
/* encrypt MOUNT FOLDER: what is written into the empty folder from now on is encrypted, with a key of its own for each file. */
#include <fcntl.h>
#include <linux/fscrypt.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { KEY_BYTES = 64 };

int main(int argc, char **argv)
{
	int mount = argc == 3 ? open(argv[1], O_RDONLY) : -1;
	int folder = argc == 3 ? open(argv[2], O_RDONLY) : -1;
	struct {
		struct fscrypt_add_key_arg arg;
		unsigned char raw[KEY_BYTES];
	} key = {
		.arg.key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER,
		.arg.raw_size = KEY_BYTES,
	};
	struct fscrypt_policy_v2 policy = {
		.version = FSCRYPT_POLICY_V2,
		.contents_encryption_mode = FSCRYPT_MODE_AES_256_XTS,
		.filenames_encryption_mode = FSCRYPT_MODE_AES_256_CTS,
		.flags = FSCRYPT_POLICY_FLAGS_PAD_32,
	};

	memset(key.raw, 0x5a, sizeof(key.raw));
	if (ioctl(mount, FS_IOC_ADD_ENCRYPTION_KEY, &key)) {
		perror("encrypt: the key");
		return 1;
	}
	memcpy(policy.master_key_identifier, key.arg.key_spec.u.identifier,
	       FSCRYPT_KEY_IDENTIFIER_SIZE);
	if (ioctl(folder, FS_IOC_SET_ENCRYPTION_POLICY, &policy)) {
		perror("encrypt: the policy");
		return 1;
	}
	return 0;
}
