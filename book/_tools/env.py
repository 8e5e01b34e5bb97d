"""Make the environment of the book: .venv, with everything that requirements.txt pins.

    python3 book/_tools/env.py

The Makefile calls this with the system's Python before anything else. The second call
is instant: a stamp in .venv holds a hash of what the environment was made from.
Whatever goes wrong is said in one line.

This file must parse on every Python, however old: a reader whose Python is too old
should be told so, and not be shown a SyntaxError. Hence no f-strings and nothing newer.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = (3, 11)
FREE_GB = 4
SOURCES = ("requirements.txt", "pyproject.toml")

NO_SPACE = re.compile(
    r"No space left on device|Disk quota exceeded|not enough space on the disk"
    r"|database or disk is full",
    re.I,
)
NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError"
    r"|ProxyError|SSLError|MaxRetryError|Failed to establish a new connection"
    r"|Temporary failure in name resolution|Connection (refused|reset|aborted)"
)


class Trouble(Exception):
    """What the reader must know, in one line."""


def check_python():
    """Refuse a Python that is too old, or one that cannot make environments."""
    if sys.version_info[:2] < NEEDED:
        raise Trouble(
            "Python %d.%d or newer is needed, and %s is %d.%d. Install one from "
            "python.org or your system, or name it: make PYTHON=/path/to/python3.11"
            % (NEEDED + (sys.executable or "this one",) + tuple(sys.version_info[:2]))
        )
    # not at the top: Python 2 has none, and it too should read the line above
    import importlib.util

    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise Trouble(
                "%s has no module '%s', so it cannot make an environment. "
                "On Debian and Ubuntu: apt-get install python3-venv"
                % (sys.executable, module)
            )


def check_disk(root):
    """Refuse to begin an installation that would fill the disk."""
    free = shutil.disk_usage(root).free / 1e9
    if free < FREE_GB:
        raise Trouble(
            "%.1f GB are free where %s lies, and the environment needs about %d. "
            "Make room and try again." % (free, root, FREE_GB)
        )


def fingerprint(root):
    """A hash of all that the environment depends on; its folder too, as an environment
    cannot be moved.
    """
    digest = hashlib.sha256(os.path.abspath(root).encode("utf-8"))
    for name in SOURCES:
        with open(os.path.join(root, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def places(root):
    """The environment, its Python, its stamp, and the log of pip."""
    venv = os.path.join(root, ".venv")
    python = (
        os.path.join(venv, "Scripts", "python.exe")
        if os.name == "nt"
        else os.path.join(venv, "bin", "python")
    )
    return (
        venv,
        python,
        os.path.join(venv, "made-from"),
        os.path.join(root, "_build", "environment.log"),
    )


def is_ready(root):
    """Whether the environment is there and was made from what lies in the folder
    now.
    """
    _, python, stamp, _ = places(root)
    if not (os.path.exists(python) and os.path.exists(stamp)):
        return False
    with open(stamp) as file:
        return file.read() == fingerprint(root)


def is_sound(root):
    """Whether there is an environment that was made in this folder, by a Python that is
    new enough, and has pip.
    """
    venv, python, _, _ = places(root)
    config = os.path.join(venv, "pyvenv.cfg")
    if not (os.path.exists(python) and os.path.exists(config)):
        return False
    with open(config, encoding="utf-8", errors="replace") as file:
        made_here = venv in file.read()
    probe = "import sys, pip; sys.exit(sys.version_info[:2] < %r)" % (NEEDED,)
    return (
        made_here
        and subprocess.call([python, "-c", probe], stderr=subprocess.DEVNULL) == 0
    )


def diagnose(text, log):
    """One line on why pip failed, from what it wrote."""
    where = "The full log: %s" % log
    if NO_SPACE.search(text):
        return "the disk is full. Make room and try again. %s" % where
    if NO_NETWORK.search(text):
        return (
            "no network: pip could not reach the package index. "
            "Connect and try again. %s" % where
        )
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    return "%s. %s" % (errors[-1].rstrip(".") if errors else "pip failed", where)


def logged(command, log, root):
    """Run a command with all its output in the log; raise Trouble if it fails."""
    with open(log, "ab") as file:
        start = file.tell()
        code = subprocess.call(
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=root,
        )
    if code:
        with open(log, encoding="utf-8", errors="replace") as file:
            file.seek(start)
            raise Trouble(diagnose(file.read(), log))


def install(root):
    """Make or mend the environment and fill it; the stamp comes last, so that what was
    broken off is taken up again.
    """
    venv, python, stamp, log = places(root)
    os.makedirs(os.path.dirname(log), exist_ok=True)
    open(log, "wb").close()
    sound = is_sound(root)
    work = (
        "bringing .venv up to date"
        if sound
        else "setting up .venv, once: some minutes and 1.5 GB (more for GPUs)"
    )
    say("%s. Log: %s" % (work, log))
    begun = time.time()
    if os.path.exists(stamp):
        os.remove(stamp)
    if not sound:
        logged([sys.executable, "-m", "venv", "--clear", venv], log, root)
    logged(
        [
            python,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "-r",
            "requirements.txt",
        ],
        log,
        root,
    )
    with open(stamp, "w") as file:
        file.write(fingerprint(root))
    say(".venv is ready (%.0f s)" % (time.time() - begun))


@contextlib.contextmanager
def alone(root):
    """Nobody else sets up this folder meanwhile, where the system knows locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = os.path.join(root, "_build", "environment.lock")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another set-up of this folder is at work; this one waits for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text):
    """Tell the reader, at once."""
    print(text)
    sys.stdout.flush()


def main(root=ROOT):
    """Check, install if needed; 0, or 1 after one line on what is wrong."""
    try:
        check_python()
        if not is_ready(root):
            check_disk(root)
            with alone(root):
                if not is_ready(root):  # it may have become so meanwhile
                    install(root)
    except (Trouble, OSError) as error:
        sys.stderr.write("attnlib: %s\n" % error)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nattnlib: broken off; the same command takes it up again\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
