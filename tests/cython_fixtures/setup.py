"""Build of the functions for the tests of pointers; `plain_functions.c` is written by the fixture."""

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

setup(
    ext_modules=cythonize(
        [
            Extension(
                "native_functions",
                ["native_functions.pyx", "plain_functions.c"],
                include_dirs=[np.get_include()],
            )
        ]
    )
)
