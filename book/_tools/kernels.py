"""Kernels that do not import torch again: forks of one process that has it.

A page's kernel spends three seconds on imports, most of them on torch, and the book has
25 pages. `share_imports` makes this process, and what runs pages in it (nbclient,
nbval), start its kernels from one that has imported them. A kernel is still a process
of its own, and none of the imported names stand in it. Linux only; elsewhere kernels
start as ever.

    python book/_tools/kernels.py      that one process; it forks for each line it reads
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from importlib.metadata import EntryPoint

import psutil
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

import notebooks

ONE_AT_A_TIME = threading.Lock()  # two pages run at once, in two threads


def share_imports() -> None:
    """From now on kernels of this process are forked."""
    if sys.platform == "linux":
        factory = KernelProvisionerFactory.instance()
        forked = EntryPoint("forked", "kernels:Forked", factory.GROUP_NAME)
        factory.provisioners["forked"] = forked
        factory.default_provisioner_name = "forked"


class Forked(LocalProvisioner):
    """What jupyter_client asks for a kernel's process."""

    async def launch_kernel(self, cmd, **kwargs):
        folder = kwargs.get("cwd") or os.getcwd()
        self.pid = fork(cmd, str(folder), dict(kwargs.get("env") or os.environ))
        self.process = Kernel(self.pid)
        self.pgid, self.cwd = self.pid, folder
        return self.connection_info


class Kernel(psutil.Process):
    """A process that is not our child, with what LocalProvisioner asks a child for."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        return None if self.is_running() else 0


@functools.cache
def parent() -> subprocess.Popen:
    """The process whose forks the kernels are."""
    process = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | notebooks.ONE_THREAD,
        start_new_session=True,  # Ctrl-C is for the program that runs the pages
    )
    atexit.register(process.communicate)
    return process


def fork(command: list[str], folder: str, environment: dict[str, str]) -> int:
    """Start a kernel; the number of its process."""
    job = {"argv": command, "folder": folder, "environment": environment}
    with ONE_AT_A_TIME:
        parent().stdin.write(json.dumps(job) + "\n")
        parent().stdin.flush()
        number = parent().stdout.readline()
    if not number:
        raise RuntimeError("the process that forks kernels has ended")
    return int(number)


# ---------------------------------------------------------------- that one process


def serve() -> None:
    """Fork for each line, and say the number of the new process, until there are no
    more lines.
    """
    tools = os.path.dirname(os.path.abspath(__file__))  # a page finds none of these
    sys.path[:] = [place for place in sys.path if place != tools]
    import ipykernel.kernelapp  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import torch  # noqa: F401

    gc.freeze()  # no kernel looks through this again, and so copies it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets ended kernels
    for line in sys.stdin:
        number = os.fork()
        if number == 0:
            be_kernel(**json.loads(line))
        print(number, flush=True)


def be_kernel(argv: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run as a kernel to the end, as if `argv` had been called in `folder`."""
    import matplotlib
    from ipykernel.kernelapp import IPKernelApp

    argv = argv[argv.index("-f") :]
    # it ends when this process does, which ends with the program that runs the pages
    argv.append(f"--IPKernelApp.parent_handle={os.getppid()}")
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    ahead = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [place for place in ahead if place and place not in sys.path]
    inline = "module://matplotlib_inline.backend_inline"
    matplotlib.rcParams["backend"] = os.environ.get("MPLBACKEND") or inline
    IPKernelApp.launch_instance(argv)
    os._exit(0)


if __name__ == "__main__":
    serve()
