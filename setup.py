"""Build of the two extensions: the only place that knows compilers. All else is in pyproject.toml.

``TMAPAD_NO_OPENMP=1`` builds without OpenMP, for one thread, and asks no compiler about it.
``TMAPAD_SANITIZE=address`` or ``thread`` builds for a sanitizer of GCC or Clang: see docs/testing.md.
"""

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from runpy import run_path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

MODULES = ("_core", "_tmap")

# Optimisation that keeps the meaning of floating-point code: never -ffast-math or -Ofast (linked into a
# shared library, they also switch subnormal numbers off in the whole process), never -march=native. GCC and
# Clang may fuse a * b + c where the target has an instruction for it, and so give other bits elsewhere: off.
COMPILE_ARGS = {"msvc": ["/O2"], "unix": ["-O3", "-ffp-contract=off"]}

# Ways to ask for OpenMP, tried in order: (compiler arguments, linker arguments).
OPENMP_MSVC = [(["/openmp"], []), (["/openmp:llvm"], [])]
OPENMP_UNIX = [(["-fopenmp"], ["-fopenmp"])]
# Apple's clang has no -fopenmp of its own and no runtime. Homebrew keeps libomp out of the default paths, in
# one of two prefixes; for any other place set CPPFLAGS and LDFLAGS, which every compile and link takes up.
OPENMP_APPLE = [
    (["-Xpreprocessor", "-fopenmp", *include], [*lib, "-lomp"])
    for include, lib in (
        ([], []),
        (["-I/opt/homebrew/opt/libomp/include"], ["-L/opt/homebrew/opt/libomp/lib"]),
        (["-I/usr/local/opt/libomp/include"], ["-L/usr/local/opt/libomp/lib"]),
    )
]

# What TMAPAD_SANITIZE may be: compiler arguments, which the linker gets too, and macros. The first report ends the
# process. The thread sanitizer does not understand OpenMP's barriers: its workers are plain threads (_plain_threads.h).
SANITIZE = ["-O1", "-g1", "-fno-omit-frame-pointer"]
SANITIZERS = {
    # Python itself is built with -fwrapv, under which no signed overflow is a fault.
    "address": ([*SANITIZE, "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-wrapv"], []),
    "thread": ([*SANITIZE, "-fsanitize=thread"], [("TMAPAD_PLAIN_THREADS", "1")]),
}

OPENMP_PROBE = """\
#include <omp.h>
#ifndef _OPENMP
#error "the compiler ignored the option"
#endif
int main(void) {
    int n = 0;
    #pragma omp parallel reduction(+:n)
    n += omp_get_thread_num() + 1;
    return n < 1;
}
"""

NO_OPENMP_ASKED = "tmapad: TMAPAD_NO_OPENMP is set: built without OpenMP, for one thread."
NO_OPENMP_FOUND = (
    "tmapad: WARNING: this C compiler cannot build an OpenMP program: built without OpenMP, for one thread. "
    "Install its OpenMP runtime (gcc brings one; for clang it is libomp: `apt install libomp-dev` on Debian, "
    "`brew install libomp` on macOS) and install tmapad again. TMAPAD_NO_OPENMP=1 asks for this build."
)


def find_openmp(compiler, platform=sys.platform):
    """Return (compiler arguments, linker arguments) with which `compiler` builds OpenMP programs, or None.

    Compiling alone tells nothing: Clang takes -fopenmp where there is no runtime, and fails when it links.
    """
    if compiler.compiler_type == "msvc":
        candidates = OPENMP_MSVC
    else:
        candidates = OPENMP_UNIX + (OPENMP_APPLE if platform == "darwin" else [])
    for compile_args, link_args in candidates:
        with tempfile.TemporaryDirectory() as folder, quiet():
            source = Path(folder, "openmp_probe.c")
            source.write_text(OPENMP_PROBE)
            try:
                objects = compiler.compile([str(source)], output_dir=folder, extra_postargs=compile_args)
                compiler.link_executable(objects, "openmp_probe", output_dir=folder, extra_postargs=link_args)
            except (CompileError, LinkError):
                continue
        return compile_args, link_args
    return None


def openmp_arguments(compiler, environ=os.environ, platform=sys.platform):
    """Return (1 with OpenMP or 0 without, compiler arguments, linker arguments); say so if without."""
    if environ.get("TMAPAD_NO_OPENMP", "") not in ("", "0"):
        print(NO_OPENMP_ASKED, file=sys.stderr)
        return 0, [], []
    found = find_openmp(compiler, platform)
    if found is None:
        print(NO_OPENMP_FOUND, file=sys.stderr)
        return 0, [], []
    return 1, *found


def sanitizer_arguments(environ=os.environ):
    """Return (arguments of compiler and linker, macros) of the sanitizer that was asked for; none without."""
    name = environ.get("TMAPAD_SANITIZE", "")
    if name and name not in SANITIZERS:
        raise SystemExit(f"tmapad: TMAPAD_SANITIZE is {name!r}; it must be {' or '.join(SANITIZERS)}")
    return SANITIZERS.get(name, ([], []))


@contextmanager
def quiet():
    """Keep to ourselves what compilers say about a probe: one clear warning is given instead."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {target: os.dup(target) for target in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for target in saved:
            os.dup2(nowhere, target)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for target, fd in saved.items():
            os.dup2(fd, target)
        for fd in (nowhere, *saved.values()):
            os.close(fd)


class BuildExt(build_ext):
    """Translate with Cython and compile, with what the compiler turned out to be able to do."""

    def build_extensions(self):
        """Fill in the compiler's arguments, translate, compile where anything changed."""
        import Cython
        import numpy as np
        from Cython.Build import cythonize

        openmp, compile_args, link_args = openmp_arguments(self.compiler)
        sanitize, macros = sanitizer_arguments()
        kind = "msvc" if self.compiler.compiler_type == "msvc" else "unix"
        for extension in self.extensions:
            extension.include_dirs = ["tmapad", np.get_include()]
            extension.extra_compile_args = [*COMPILE_ARGS[kind], *compile_args, *sanitize]
            extension.extra_link_args = [*link_args, *sanitize]
            # Headers of any NumPy 2, asked for the ABI of 2.0: what is built runs with every NumPy 2.
            extension.define_macros = [
                ("TMAPAD_OPENMP", str(openmp)),
                ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),
                ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
                *macros,
            ]
        # The generated C lies in the build folder, not beside the sources; one for each version of Cython,
        # since it is made again where a source is newer, not where Cython is another.
        folder = Path("build", f"cython-{Cython.__version__}")
        translated = cythonize(
            self.extensions, build_dir=str(folder), force=self.force, language_level=3, quiet=not self.verbose
        )
        depends = [*map(str, sorted(Path("tmapad").glob("*.h"))), self.settings_file(np.__version__)]
        for extension, c in zip(self.extensions, translated, strict=True):
            extension.sources = c.sources
            extension.depends = depends
        super().build_extensions()
        self.note_sources()

    def settings_file(self, numpy_version):
        """Return a file newer than all that was built with other settings, so that it is built again."""
        extension = self.extensions[0]
        text = "\n".join(
            [
                f"numpy {numpy_version}",
                *(f"{name}={value}" for name, value in extension.define_macros),
                " ".join(extension.extra_compile_args + extension.extra_link_args),
                *(f"{name}={os.environ.get(name, '')}" for name in ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS")),
            ]
        )
        path = Path(self.build_temp, "tmapad-settings.txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        return str(path)

    def note_sources(self):
        """Write beside the compiled extensions what they were built from, for a source tree to know."""
        source_tree = run_path("tmapad/_source_tree.py")
        path = Path(self.build_lib, "tmapad", source_tree["MANIFEST"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(source_tree["digests"](Path("tmapad")), indent=0))


if __name__ == "__main__":
    setup(
        license="MIT",
        ext_modules=[Extension(f"tmapad.{name}", [f"tmapad/{name}.pyx"]) for name in MODULES],
        cmdclass={"build_ext": BuildExt},
    )
