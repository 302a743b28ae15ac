"""The system calls that programs in a sandbox may not use, by number on each architecture.

Calls that are newer than this table are refused: a number above ``NEWEST`` does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Architecture(NamedTuple):
    """An architecture.

    Args:
        audit: the kernel's ``AUDIT_ARCH_*``.
        column: the column of its numbers in the table below.
        x32: numbers from here on belong to another calling convention; None if there is none.
    """

    audit: int
    column: int
    x32: int | None = None


MACHINES: Final[Mapping[str, Architecture]] = {
    "x86_64": Architecture(0xC000003E, 0, 0x40000000),
    "aarch64": Architecture(0xC00000B7, 1),
}
NEWEST: Final = 462

FORBIDDEN: Final[Mapping[str, tuple[int, int | None]]] = {
    # Other processes and their resources.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # File systems and namespaces.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "ustat": (136, None),
    "sysfs": (139, None),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    # Keys, programs for the kernel, and the kernel's code.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "uselib": (134, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "_sysctl": (156, None),
    # The machine as a whole.
    "syslog": (103, 116),
    "reboot": (169, 142),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "ioperm": (173, None),
    "iopl": (172, None),
    "modify_ldt": (154, None),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "get_mempolicy": (239, 236),
    "set_mempolicy_home_node": (450, 450),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
"""Answered with EPERM."""

ABSENT: Final[Mapping[str, tuple[int, int | None]]] = {
    # Its flags are in memory, so they cannot be looked into.
    "openat2": (437, 437),
    # Its flags are in memory, which a filter cannot read; libc then uses clone.
    "clone3": (435, 435),
    # Memory that belongs to no process, so no limit of a process counts it.
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # Requests that all programs of the machine share, so that one program could use them up.
    "io_setup": (206, 0),
}
"""Refused with ENOSYS, like on a kernel that does not have them."""

LOOKED_INTO: Final[Mapping[str, tuple[int, int | None]]] = {
    "chmod": (90, None),
    "creat": (85, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "open": (2, None),
    "openat": (257, 56),
    "clone": (56, 220),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "mmap": (9, 222),
    "personality": (135, 92),
}
"""Allowed or refused depending on their arguments."""
