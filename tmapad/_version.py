"""The version: the one place that states it, read by the build without importing the package."""

__version__ = "0.1.0"
