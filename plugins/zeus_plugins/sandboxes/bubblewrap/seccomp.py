"""Assembles the system call filter as a classic BPF program, the form for the kernel and ``bwrap --seccomp``.

This assembler replaces libseccomp, whose Python bindings need a native library that is not available everywhere. The
filter is short: a list of numbers, and calls whose arguments matter. Sources: seccomp(2), <linux/filter.h>,
<linux/seccomp.h>.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from zeus_plugins.sandboxes.bubblewrap.syscalls import (
    ABSENT,
    FORBIDDEN,
    LOOKED_INTO,
    MACHINES,
    NEWEST,
    Architecture,
)

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_GREATER: Final = 0x25  # BPF_JMP | BPF_JGT | BPF_K
_BITS: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_MASK: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000

_NEW_NAMESPACES: Final = 0x7E020000  # CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP
_UNIX, _INET, _INET6 = _FAMILIES = (1, 2, 10)
_STREAM, _DATAGRAM, _TYPE = 1, 2, 0xF
_TCP, _UDP = 6, 17
_TERMINAL: Final = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
_PERSONALITIES: Final = (0, 0xFFFFFFFF)
_MAP_SHARED: Final = 0x01
_MAP_ANONYMOUS: Final = 0x20
_MAP_HUGETLB: Final = 0x40000

_OTHERS_RIGHTS: Final = (
    0o6000  # S_ISUID, S_ISGID: who runs such a file in the workspace gets the rights of Zeus's user
)
_CREATING: Final = 0o20000100  # O_TMPFILE, O_CREAT
_MODES: Final = {"chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
"""Calls with a file's mode among their arguments, and its place."""

Instruction = tuple[int, int, int, int]


def filter_program(machine: str) -> bytes:
    """Return the filter for ``platform.machine()``, as an array of ``struct sock_filter``.

    Raises:
        KeyError: the numbers of the architecture's system calls are not known.
    """
    return b"".join(struct.pack("=HBBI", *each) for each in _instructions(MACHINES[machine]))


def _instructions(machine: Architecture) -> Iterator[Instruction]:
    # An instruction: its code, how many instructions to skip if its test is true or false, and its operand.
    # The architecture comes first, because the same number is another call on another one.
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _EQUAL, 1, 0, machine.audit
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER
    # Higher numbers are calls of later kernels and, on x86-64, of the x32 convention.
    yield _GREATER, 0, 1, NEWEST
    yield _refusal(errno.ENOSYS)
    for table, error in ((FORBIDDEN, errno.EPERM), (ABSENT, errno.ENOSYS)):
        for numbers in table.values():
            number = numbers[machine.column]
            if number is not None:
                yield _EQUAL, 0, 1, number
                yield _refusal(error)
    yield from _with_argument("clone", machine, 0, _without(_NEW_NAMESPACES, errno.EPERM))
    yield from _with_argument("socket", machine, 0, _only_plain_sockets())
    yield from _with_argument("socketpair", machine, 0, _only(_FAMILIES, errno.EAFNOSUPPORT))
    yield from _with_argument("ioctl", machine, 1, _none_of(_TERMINAL, errno.EPERM))
    yield from _with_argument("personality", machine, 0, _only(_PERSONALITIES, errno.EPERM))
    yield from _with_argument("mmap", machine, 3, _only_memory_that_is_counted())
    for name, argument in _MODES.items():
        yield from _with_argument(name, machine, argument, _without(_OTHERS_RIGHTS, errno.EPERM))
    for name, argument in (("open", 1), ("openat", 2)):
        yield from _with_argument(name, machine, argument, _only_with_own_rights(argument + 1))
    yield _RETURN, 0, 0, _ALLOW


def _with_argument(
    name: str, machine: Architecture, argument: int, then: Sequence[Instruction]
) -> Iterator[Instruction]:
    """For the call ``name``, load the low half of an argument and run ``then``, which ends in a return."""
    number = LOOKED_INTO[name][machine.column]
    if number is None:
        return
    yield _EQUAL, 0, len(then) + 1, number
    yield _LOAD, 0, 0, _ARGUMENTS + 8 * argument
    yield from then


def _without(bits: int, error: int) -> Sequence[Instruction]:
    return (_BITS, 0, 1, bits), _refusal(error), (_RETURN, 0, 0, _ALLOW)


def _only(values: Sequence[int], error: int) -> Sequence[Instruction]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return *tests, _refusal(error), (_RETURN, 0, 0, _ALLOW)


def _none_of(values: Sequence[int], error: int) -> Sequence[Instruction]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return *tests, (_RETURN, 0, 0, _ALLOW), _refusal(error)


def _only_plain_sockets() -> Sequence[Instruction]:
    """Allow only some families, and of the internet only TCP and UDP: others would load modules into the kernel."""
    return (
        *((_EQUAL, 12, 0, _UNIX), (_EQUAL, 1, 0, _INET), (_EQUAL, 0, 9, _INET6)),
        *((_LOAD, 0, 0, _ARGUMENTS + 8), (_MASK, 0, 0, _TYPE)),
        *((_EQUAL, 1, 0, _STREAM), (_EQUAL, 0, 4, _DATAGRAM)),
        (_LOAD, 0, 0, _ARGUMENTS + 16),
        *((_EQUAL, 4, 0, 0), (_EQUAL, 3, 0, _TCP), (_EQUAL, 2, 0, _UDP)),
        *(_refusal(errno.EPROTONOSUPPORT), _refusal(errno.EAFNOSUPPORT)),
        (_RETURN, 0, 0, _ALLOW),
    )


def _only_memory_that_is_counted() -> Sequence[Instruction]:
    """Refuse shared memory without a file, which stays complete while one page is mapped, and reserved huge pages."""
    return (
        *((_BITS, 0, 1, _MAP_HUGETLB), _refusal(errno.ENOMEM)),
        *((_BITS, 0, 2, _MAP_ANONYMOUS), (_BITS, 0, 1, _MAP_SHARED), _refusal(errno.EPERM)),
        (_RETURN, 0, 0, _ALLOW),
    )


def _only_with_own_rights(mode: int) -> Sequence[Instruction]:
    """Refuse to make a file with which others get its owner's rights; the flags are loaded.

    Args:
        mode: the argument that counts only if a file is made.
    """
    return (
        (_BITS, 0, 3, _CREATING),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * mode),
        *_without(_OTHERS_RIGHTS, errno.EPERM),
    )


def _refusal(error: int) -> Instruction:
    return _RETURN, 0, 0, 0x00050000 | error
