# Processes that put a link, or a directory with something in it, in the place of a file while that is moved to a name that rules begin
# with. Argument: for how many seconds.
import multiprocessing, os, sys, time

end = time.monotonic() + float(sys.argv[1])


def moves():
    away = "away%d" % os.getpid()
    while time.monotonic() < end:
        quiet(os.rename, "it", ".cargo")
        if os.path.islink(".cargo") or os.path.lexists(".cargo/config.toml"):
            print("LANDED", flush=True)
            os._exit(3)
        quiet(os.rename, ".cargo", away)
        quiet(os.unlink, away)
        quiet(os.rmdir, away)


def links():
    link = "link%d" % os.getpid()
    while time.monotonic() < end:
        quiet(os.symlink, "evil", link)
        quiet(os.rename, link, "it")
        quiet(os.unlink, "it")
        make("it")


def fills():
    while time.monotonic() < end:
        quiet(os.unlink, "it")
        quiet(os.mkdir, "it")
        make("it/config.toml")
        quiet(os.unlink, "it/config.toml")
        quiet(os.rmdir, "it")
        make("it")


def burns():
    while time.monotonic() < end:
        pass


# Newer Pythons begin with a fresh interpreter, which would read this file anew.
fork = multiprocessing.get_context("fork")
workers = [fork.Process(target=one) for one in (moves, moves, links, fills, burns, burns)]
for one in workers:
    one.start()
for one in workers:
    one.join()
print("over")
sys.exit(max(one.exitcode for one in workers))
