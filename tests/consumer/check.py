"""Use of user_functions through tmapad. Exits non-zero at the first result that is not its formula's."""

import numpy as np
import user_functions

import tmapad
from tmapad import from_cython, register, rrule, tmap


def compare(name, actual, expected, tolerance=1e-13):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=name)
    assert np.asarray(actual).dtype == np.asarray(expected).dtype, (name, actual.dtype)
    print("ok", name)


x = np.linspace(0.0, 4.0, 10_001)
dy = np.cos(x)

wave = from_cython("user_functions", "wave", derivative="wave_derivative")
y, back = rrule(tmap, wave, x)
own, df, dx = back(dy)
assert own is df is tmapad.NoTangent()
compare("wave", y, np.exp(-0.5 * x) * np.sin(3 * x))
compare("wave, tmap", tmap(wave, x), y, 0)
compare("wave, cotangent", dx, np.exp(-0.5 * x) * (3 * np.cos(3 * x) - 0.5 * np.sin(3 * x)) * dy)

rate = from_cython(user_functions, "rate", derivative=("rate_ds", "rate_dk"))
y, back = rrule(tmap, rate, x, 0.7)
_, _, ds, dk = back(dy)
compare("rate", y, x / (0.7 + x))
compare("rate, substrate", ds, 0.7 / (0.7 + x) ** 2 * dy)
compare("rate, constant", dk, np.float64((-x / (0.7 + x) ** 2 * dy).sum()), 1e-11)

lambert = from_cython("user_functions", "lambert_value", value_and_derivative="lambert")
y, back = rrule(tmap, lambert, x)
compare("lambert", y * np.exp(y), x)
compare("lambert, cotangent", back(dy)[2], dy / (np.exp(y) * (1 + y)))

x32 = x.astype(np.float32)
square = from_cython("user_functions", "square", derivative="square_derivative")
y, back = rrule(tmap, square, x32)
compare("square", y, x32 * x32, 0)
compare("square, cotangent", back(np.ones_like(y))[2], x32 + x32, 0)

z = x + 1j * dy
cube = from_cython("user_functions", "cube", derivative="cube_derivative")
y, back = rrule(tmap, cube, z)
compare("cube", y, z**3)
compare("cube, cotangent", back(np.ones_like(y))[2], np.conj(3 * z * z))

relu = register(user_functions.relu, derivative=user_functions.__pyx_capi__["relu_derivative"])
y, back = rrule(tmap, relu, x - 2.0)
compare("relu", y, np.maximum(x - 2.0, 0.0), 0)
compare("relu, cotangent", back(dy)[2], np.where(x > 2.0, dy, 0.0), 0)
