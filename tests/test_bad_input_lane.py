"""attnlib's own errors are seen only in a process where no shape checker speaks first:
this starts one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_lane(root: Path) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "bad_input",
        "-p",
        "no:cacheprovider",
        "tests",
    ]
    return subprocess.run(
        command,
        cwd=root,
        env=os.environ | {"ATTNLIB_SHAPES": "0"},
        capture_output=True,
        text=True,
        check=False,
    )


def passed(done: subprocess.CompletedProcess) -> int:
    found = re.search(r"(\d+) passed", done.stdout)
    return int(found[1]) if found else 0


def test_bad_input_lane_runs_and_passes():
    done = run_lane(ROOT)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert passed(done) > 0, "no test is marked bad_input"
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout[-2000:]


def test_in_the_lane_attnlib_stands_without_the_shape_checker():
    """The variable does what the lane relies on: with it the hook is off, without it
    the hook is on.
    """
    script = (
        "import sys; sys.path.insert(0, 'tests'); import conftest; "
        "print(conftest.SHAPES, 'jaxtyping' in sys.modules)"
    )
    for value, expected in (("0", "False False"), ("1", "True True")):
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=os.environ | {"ATTNLIB_SHAPES": value},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == expected
