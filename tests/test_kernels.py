"""Kernels that are forks of one process: each is a process and a namespace of its own,
and none is left behind.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time

import kernels
import minibook
import pages
import psutil
import pytest
from jupyter_client.manager import start_new_kernel
from jupyter_client.provisioning import KernelProvisionerFactory
from minibook import code

import notebooks
from notebooks import CHECKED

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere kernels are not forked"
)

FACTS = """\
import json, os, sys
print(json.dumps({
    "parent": os.getppid(),
    "session": os.getsid(0) == os.getpid(),
    "folder": os.getcwd(),
    "colour": os.environ.get("COLOUR"),
    "threads": sys.modules["torch"].get_num_threads() if "torch" in sys.modules else 0,
    "named": "torch" in globals(),
    "tools": any(place.endswith("_tools") for place in sys.path),
    "first": sys.path[0],
}))"""

# Starts two kernels, says which processes they are, and waits to be killed.
PROGRAM = """\
import sys, time
sys.path.insert(0, {tools!r})
import kernels
from jupyter_client.manager import start_new_kernel
kernels.share_imports()
found = [start_new_kernel()[0].provisioner.pid for _ in range(2)]
print(*found, kernels.parent().pid, flush=True)
time.sleep(3600)
"""


@pytest.fixture
def forked():
    """Kernels of this test are forked; those of other tests are as they were."""
    factory = KernelProvisionerFactory.instance()
    before = factory.default_provisioner_name
    kernels.share_imports()
    yield
    factory.default_provisioner_name = before


def run(folder, *cells: str) -> list[str]:
    """What each cell of a page printed."""
    page = minibook.write_page(
        folder, *(code(f"cell-{n}", text, CHECKED) for n, text in enumerate(cells))
    )
    done, _ = notebooks.execute(pages.read(page), page)
    return [notebooks.printed(cell) for cell in done["cells"]]


def facts(folder) -> dict:
    return json.loads(run(folder, FACTS)[0])


def gone(*numbers: int, within: float = 900) -> bool:
    """Whether these processes end in so many seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not any(map(psutil.pid_exists, numbers)):
            return True
        time.sleep(0.1)
    return False


def test_a_kernel_has_the_imports_and_no_name_of_them(forked, tmp_path, monkeypatch):
    monkeypatch.setenv("COLOUR", "green")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    found = facts(tmp_path)
    assert found.pop("first") == str(tmp_path / "mine")
    assert found == {
        "parent": kernels.parent().pid,
        "session": True,
        "folder": str(tmp_path / "notebooks/one"),
        "colour": "green",
        "threads": 1,
        "named": False,
        "tools": False,
    }


def test_kernels_share_nothing_that_they_change(forked, tmp_path):
    change = "import torch, random\ntorch.zeros(1).fill_(7)\ntorch.mark = 1"
    draw = "import torch\nprint(torch.rand(1).item(), hasattr(torch, 'mark'))"
    first = run(tmp_path, draw, change)[0]
    assert run(tmp_path, draw, change)[0] == first and "False" in first


@pytest.mark.parametrize("backend", ["", "agg"])
def test_a_figure_is_shown_inline_unless_asked_otherwise(
    forked, tmp_path, monkeypatch, backend
):
    monkeypatch.setenv("MPLBACKEND", backend)
    page = minibook.write_page(
        tmp_path, code("draw", "import matplotlib.pyplot as p\np.plot([1, 2]);")
    )
    done, _ = notebooks.execute(pages.read(page), page)
    found = [output["data"] for output in done["cells"][0]["outputs"]]
    assert ["image/png" in data for data in found] == ([] if backend else [True])


def test_a_cell_that_takes_too_long_is_stopped(forked, tmp_path):
    page = minibook.write_page(tmp_path, code("long", "import time\ntime.sleep(3600)"))
    with pytest.raises(pages.Problem, match="timed out"):
        notebooks.execute(pages.read(page), page, timeout=1)


def test_a_kernel_is_interrupted_ends_when_told_and_is_not_left(forked):
    manager, client = start_new_kernel()
    number = manager.provisioner.pid
    try:
        code = "import time\nprint('begun', flush=True)\ntime.sleep(3600)"
        asked = client.execute(code)
        while client.get_iopub_msg(timeout=900)["msg_type"] != "stream":
            pass  # an interrupt before the cell has begun would hit the kernel
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=900)
        while (
            reply["parent_header"]["msg_id"] != asked
        ):  # an answer to "are you there?"
            reply = client.get_shell_msg(timeout=900)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert manager.is_alive()
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert gone(number) and not manager.is_alive()


def test_killed_programs_leave_no_kernels(tmp_path):
    program = PROGRAM.format(tools=str(pages.ROOT / "book/_tools"))
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    )
    with process:
        numbers = [int(word) for word in process.stdout.readline().split()]
        assert all(map(psutil.pid_exists, numbers)) and len(numbers) == 3
        process.send_signal(signal.SIGKILL)
    assert gone(*numbers)


def test_a_kernel_whose_port_was_taken_is_started_again(forked, tmp_path, monkeypatch):
    """Between the choice of a port and its use another program may take it; the control
    starts once.
    """
    fork, taken = kernels.fork, []

    def late(command, *rest):
        if taken:
            taken.pop().close()
        else:
            with open(command[command.index("-f") + 1], encoding="utf-8") as file:
                place = ("127.0.0.1", json.load(file)["shell_port"])
            taken.append(socket.create_server(place))
        return fork(command, *rest)

    monkeypatch.setattr(kernels, "fork", late)
    assert run(tmp_path, "print(3)") == ["3\n"] and not taken
    monkeypatch.setattr(notebooks, "started", lambda client: client.execute())
    with pytest.raises(RuntimeError, match="before replying"):
        run(tmp_path, "print(3)")
    taken.pop().close()
