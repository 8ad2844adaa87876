"""Build of a user's module of functions for tmapad."""

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

module = Extension("user_functions", ["user_functions.pyx"], include_dirs=[np.get_include()])
setup(ext_modules=cythonize([module]))
