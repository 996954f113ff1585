# What others of these programs begin with.
import os


def quiet(f, *a):
    try:
        return f(*a)
    except OSError:
        return None


def make(name):
    fd = quiet(os.open, name, os.O_CREAT | os.O_WRONLY, 0o600)
    if fd is not None:
        os.close(fd)


