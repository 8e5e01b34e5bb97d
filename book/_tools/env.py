"""Make the environment of the book: .venv, for building it, printing it, or testing.

    python3 book/_tools/env.py book|pdf|test [--this-python]

Each level holds the one before it, and what is there stays. The Makefile calls this
with the system's Python before anything else. The second call is instant: a stamp in
.venv for each level holds a hash of what it was made from. With --this-python, which
the Makefile says where somebody has named a Python, an environment of another version
is made anew. Whatever goes wrong is said in one line.

This file must parse on every Python, however old: a reader whose Python is too old
should be told so, and not be shown a SyntaxError. Hence no f-strings and nothing newer.
"""

import hashlib
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = (3, 11)
LEVELS = ("book", "pdf", "test")

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


def requirements(level):
    """The file of a level."""
    return "requirements%s.txt" % ("" if level == LEVELS[0] else "-" + level)


def upto(level):
    """A level and those that it holds."""
    return LEVELS[: LEVELS.index(level) + 1]


def fingerprint(root, level):
    """A hash of all that a level of the environment depends on; its folder too, as an
    environment cannot be moved.
    """
    digest = hashlib.sha256(os.path.abspath(root).encode("utf-8"))
    for name in ["pyproject.toml"] + [requirements(held) for held in upto(level)]:
        with open(os.path.join(root, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def places(root):
    """The environment, its Python, and the log of pip."""
    venv = os.path.join(root, ".venv")
    python = (
        os.path.join(venv, "Scripts", "python.exe")
        if os.name == "nt"
        else os.path.join(venv, "bin", "python")
    )
    return venv, python, os.path.join(root, "_build", "environment.log")


def stamp(root, level):
    """The file that says what a level was made from."""
    return os.path.join(root, ".venv", "made-from-" + level)


def is_ready(root, level, this_python=False):
    """Whether the environment is there and was made from what lies in the folder
    now.
    """
    made = stamp(root, level)
    if not (os.path.exists(places(root)[1]) and os.path.exists(made)):
        return False
    with open(made) as file:
        same = file.read() == fingerprint(root, level)
    return same and not (this_python and is_of_another_python(root))


def config(root):
    """What the environment says of itself; nothing if there is none."""
    path = os.path.join(places(root)[0], "pyvenv.cfg")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def is_of_another_python(root):
    """Whether the environment was made by another version than the one that runs."""
    version = "%d.%d.%d" % tuple(sys.version_info[:3])
    return re.search(r"^version\w* = %s\b" % version, config(root), re.M) is None


def is_sound(root):
    """Whether there is an environment that was made in this folder, by a Python that is
    new enough, and has pip.
    """
    venv, python, _ = places(root)
    if not os.path.exists(python) or venv not in config(root):
        return False
    probe = "import sys, pip; sys.exit(sys.version_info[:2] < %r)" % (NEEDED,)
    return subprocess.call([python, "-c", probe], stderr=subprocess.DEVNULL) == 0


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


def install(root, level, this_python=False):
    """Make or mend the environment and fill it; the stamps come last, so that what was
    broken off is taken up again.
    """
    venv, python, log = places(root)
    os.makedirs(os.path.dirname(log), exist_ok=True)
    open(log, "wb").close()
    sound = is_sound(root) and not (this_python and is_of_another_python(root))
    work = (
        "bringing .venv up to date"
        if sound
        else "setting up .venv, once: some minutes and 2 GB (5 with torch's CUDA build)"
    )
    say("%s. Log: %s" % (work, log))
    begun = time.time()
    for held in upto(level):
        if os.path.exists(stamp(root, held)):
            os.remove(stamp(root, held))
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
            requirements(level),
        ],
        log,
        root,
    )
    for held in upto(level):
        with open(stamp(root, held), "w") as file:
            file.write(fingerprint(root, held))
    say(".venv is ready (%.0f s)" % (time.time() - begun))


def say(text):
    """Tell the reader, at once."""
    print(text)
    sys.stdout.flush()


def main(level, this_python=False, root=ROOT):
    """Check, install if needed; 0, or 1 after one line on what is wrong."""
    try:
        check_python()
        if not is_ready(root, level, this_python):
            install(root, level, this_python)
    except (Trouble, OSError) as error:
        sys.stderr.write("attnlib: %s\n" % error)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nattnlib: broken off; the same command takes it up again\n")
        return 1
    return 0


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--this-python"]
    if len(words) != 1 or words[0] not in LEVELS:
        sys.exit("usage: env.py book|pdf|test [--this-python]")
    sys.exit(main(words[0], "--this-python" in sys.argv))
