"""How many threads a call uses, and why: the rule, its sources on made-up systems, and real processes."""

import json
import math
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import tmapad
from tmapad import _core, _threads, get_num_threads, tmap
from tmapad._threads import LARGEST, LIMITED, REQUESTED, SMALLEST, cgroup_quota, check_num_threads, decide

OPENMP = _core.openmp_enabled()
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="files are named as on Linux alone")
needs_openmp = pytest.mark.skipif(not OPENMP, reason="built without OpenMP")
needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no affinity")
needs_tasks = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system lists no threads")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


# The rule


@pytest.mark.parametrize(
    ("own", "requested", "available", "new_thread", "number", "rule"),
    [
        (8, None, 8, 8, 8, SMALLEST),
        (16, None, 4, 16, 4, SMALLEST),  # affinity or quota
        (4, None, 16, 4, 4, SMALLEST),  # affinity at the start of OpenMP
        (3, 3, 16, 3, 3, REQUESTED),
        (3, 3, 1, 3, 3, REQUESTED),  # asked for: more than there is
        (16, 3, 16, 16, 3, REQUESTED),  # set after OpenMP started, before the import
        (1, None, 16, 16, 1, LIMITED),
        (3, 3, 16, 8, 3, LIMITED),
        (12, None, 4, 16, 12, LIMITED),
        (24, None, 4, 16, 24, LIMITED),
        (1, 3, 16, 3, 1, LIMITED),
        (5, 3, 16, 3, 5, LIMITED),
        (16, None, 4, None, 4, SMALLEST),  # no new thread to be had
        (5, 3, 4, None, 3, REQUESTED),
        (2**31 - 1, None, 4, 2**31 - 1, 4, SMALLEST),  # what OpenMP makes of absurd variables
        (-(2**31), None, 4, -(2**31), 4, SMALLEST),
        (0, 3, 4, 8, 3, REQUESTED),
        (LARGEST + 1, None, 4, 8, 4, SMALLEST),
        (LARGEST, None, 4, 8, LARGEST, LIMITED),
    ],
)
def test_rule(own, requested, available, new_thread, number, rule):
    decided = decide(own, requested, lambda: available, lambda: new_thread, explain=True)
    assert decided == (number, rule)


some = st.integers(1, 6)


@given(own=st.integers(-1, 6), requested=st.none() | some, available=some, new_thread=st.none() | some)
def test_rule_is_that_of_the_documentation(own, requested, available, new_thread):
    if own >= 1 and new_thread not in (own, None):
        expected = own, LIMITED
    elif requested is not None:
        expected = requested, REQUESTED
    else:
        expected = min(own, available) if own >= 1 else available, SMALLEST
    sources = own, requested, lambda: available, lambda: new_thread
    assert decide(*sources, explain=True) == expected
    assert decide(*sources)[0] == expected[0]


def never():
    raise AssertionError("asked")


def test_asks_only_what_matters():
    assert decide(3, 3, never, never) == (3, REQUESTED)
    assert decide(3, None, lambda: 3, never) == (3, SMALLEST)
    assert decide(3, None, lambda: 8, never) == (3, SMALLEST)


# The keyword


@pytest.mark.parametrize("value", [1, 2, LARGEST, np.int8(3), np.uint64(4), np.array(5)], ids=repr)
def test_keyword(value):
    number = check_num_threads(value)
    assert number == value
    assert type(number) is int


OUT_OF_RANGE = [
    (0, "0"),
    (-1, "-1"),
    (LARGEST + 1, str(LARGEST + 1)),
    (10**6, "1000000"),
    (np.int64(-(2**63)), str(-(2**63))),
    (1 << 20000, "one of 20001 bits"),
]
NOT_AN_INTEGER = [
    (True, "True (bool)"),
    (np.True_, "np.True_ (bool)"),
    (2.0, "2.0 (float)"),
    ("2", "'2' (str)"),
    (None, "None (NoneType)"),
    (np.array([1, 2]), "array([1, 2]) (ndarray)"),
]


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [(value, ValueError, shown) for value, shown in OUT_OF_RANGE]
    + [(value, TypeError, shown) for value, shown in NOT_AN_INTEGER],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_bad_keyword(value, error, shown):
    with pytest.raises(error) as caught:
        check_num_threads(value)
    assert str(caught.value) == f"num_threads must be an integer from 1 to {LARGEST}, got {shown}"


def test_largest():
    assert max(1024, 8 * os.cpu_count()) == LARGEST


@pytest.mark.parametrize("value", [0, -3, 10**6])
def test_a_call_refuses_absurd_numbers(value):
    with pytest.raises(ValueError, match=f"num_threads must be an integer from 1 to {LARGEST}, got {value}"):
        tmap(np.exp, np.ones(3), num_threads=value)


# OMP_NUM_THREADS


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("3", 3),
        (" 3 ", 3),
        ("+3", 3),
        ("003", 3),
        ("2,1", 2),
        ("2 , 1,4", 2),
        (str(LARGEST), LARGEST),
        *((text, None) for text in ("", " ", "0", "-1", "abc", "3x", "x3", "3.0", "1e3", "0x3", "1_0")),
        *((text, None) for text in ("3 2", "2,", ",2", "2,abc", "2,0", "2,-1", "1\uff13", "2;1")),
        *((text, None) for text in (str(LARGEST + 1), "4294967297", "9" * 5000)),
    ],
)
def test_parse(text, number):
    assert _threads.parse_num_threads(text) == number


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, None),
        ({"OMP_PROC_BIND": ""}, None),
        ({"OMP_PROC_BIND": " FALSE "}, None),
        ({"OMP_NUM_THREADS": "3"}, None),
        ({"OMP_PROC_BIND": "true"}, "OMP_PROC_BIND"),
        ({"OMP_PROC_BIND": "false", "OMP_PLACES": "cores"}, "OMP_PLACES"),
        ({"GOMP_CPU_AFFINITY": "0-3"}, "GOMP_CPU_AFFINITY"),
        ({"KMP_AFFINITY": "compact"}, "KMP_AFFINITY"),
    ],
)
def test_binding(environment, name):
    assert _threads.binding_variable(environment) == name


# CPU quota: files of made-up systems

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct"
V1_MEMORY = "34 31 0:31 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory"
V1_CPUSET = "35 31 0:32 / /sys/fs/cgroup/cpuset rw shared:11 - cgroup cgroup rw,cpuset"
V1_CONTAINER = "33 31 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro master:9 - cgroup cgroup rw,cpu,cpuacct"
HYBRID = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"


def v1(quota, period="100000"):
    return {"cpu.cfs_quota_us": f"{quota}\n", "cpu.cfs_period_us": f"{period}\n"}


def v2(text):
    return {"cpu.max": f"{text}\n"}


CPU = "cpu,cpuacct"


# name: lines of mountinfo, lines of /proc/self/cgroup, files by directory below /sys/fs/cgroup, expected
SYSTEMS = {
    "nothing": ([], [], {}, None),
    "v2": ([V2], ["0::/"], {"": v2("150000 100000")}, 1.5),
    "v2 without limit": ([V2], ["0::/"], {"": v2("max 100000")}, None),
    "v2 at the root of the host": ([V2], ["0::/"], {}, None),
    "v2 below one CPU": ([V2], ["0::/"], {"": v2("10000 100000")}, 0.1),
    "v2 nested": (
        [V2],
        ["0::/a/b/c"],
        {"a": v2("800000 100000"), "a/b": v2("200000 100000"), "a/b/c": v2("max 100000")},
        2.0,
    ),
    "v2 parent is smaller": ([V2], ["0::/a/b"], {"a": v2("50000 100000"), "a/b": v2("400000 100000")}, 0.5),
    "v2 of a sibling": ([V2], ["0::/a"], {"a": {}, "b": v2("100000 100000")}, None),
    "v2 other namespace": (
        [V2],
        ["0::/../../other"],
        {"": v2("300000 100000"), "other": v2("1 1"), "../../other": v2("1 1")},
        3.0,
    ),
    "v2 directory is gone": ([V2], ["0::/a/b (deleted)"], {"a": v2("300000 100000")}, 3.0),
    "v2 colon in the path": ([V2], ["0::/a:b"], {"a:b": v2("300000 100000")}, 3.0),
    "v2 path that is no text": ([V2], ["0::/a\udcff"], {"a\udcff": v2("300000 100000")}, 3.0),
    "v2 impossible path": ([V2], ["0::/a\0b"], {"": v2("300000 100000")}, 3.0),
    "v2 without mountinfo": ([], ["0::/a"], {"a": v2("300000 100000")}, 3.0),
    "v1": ([V1], ["4:cpu,cpuacct:/a"], {"cpu,cpuacct/a": v1(250000)}, 2.5),
    "v1 without limit": ([V1], ["4:cpu,cpuacct:/a"], {CPU: v1(-1), f"{CPU}/a": v1(-1)}, None),
    "v1 nested": ([V1], ["4:cpuacct,cpu:/a/b"], {f"{CPU}/a": v1(50000, 25000), f"{CPU}/a/b": v1(-1)}, 2.0),
    "v1 container": ([V1_CONTAINER], ["4:cpu,cpuacct:/docker/abc"], {"cpu,cpuacct": v1(100000)}, 1.0),
    "v1 in a container": (
        [V1_CONTAINER],
        ["4:cpu,cpuacct:/docker/abc/job"],
        {"cpu,cpuacct": v1(400000), "cpu,cpuacct/job": v1(300000)},
        3.0,
    ),
    "v1 path not below the mount": (
        [V1_CONTAINER],
        ["4:cpu,cpuacct:/docker/abcdef"],
        {"cpu,cpuacct": v1(100000), "cpu,cpuacct/def": v1(1)},
        1.0,
    ),
    "v1 other mount": ([V1_MEMORY, V1], ["3:memory:/a", "4:cpu,cpuacct:/"], {"memory/a": v1(100000)}, None),
    "v1 path of cpuset": ([V1], ["4:cpu,cpuacct:/", "3:cpuset:/a"], {f"{CPU}/a": v1(100000)}, None),
    "v1 mount of cpuset": ([V1_CPUSET, V1], ["4:cpu,cpuacct:/"], {"cpuset": v1(100000)}, None),
    "v1 without mountinfo": ([], ["4:cpu:/a"], {"cpu/a": v1(100000)}, 1.0),
    "v1 no period": ([V1], ["4:cpu,cpuacct:/"], {"cpu,cpuacct": {"cpu.cfs_quota_us": "100000"}}, None),
    "hybrid": (
        [V1, HYBRID],
        ["4:cpu,cpuacct:/a", "0::/b"],
        {"cpu,cpuacct/a": v1(400000), "unified/b": v2("200000 100000")},
        2.0,
    ),
    "space in the mount point": (
        [V2.replace("/sys/fs/cgroup", r"/sys/fs/cgroup/my\040mount")],
        ["0::/"],
        {"my mount": v2("300000 100000")},
        3.0,
    ),
    "malformed lines": (["", "-", "30 23 - cgroup2", "x - y", V2], ["", ":", "0::/"], {"": v2("2 1")}, 2.0),
}
MALFORMED = ["", "abc", "1", "100000", "0 1", "-5 1", "100000 0", "100000 abc", "1 2 3", "9" * 400 + " 1"]
SYSTEMS |= {f"v2 {text[:9]!r}": ([V2], ["0::/"], {"": v2(text)}, None) for text in MALFORMED}
SYSTEMS |= {f"v1 {q!r}": ([V1], ["4:cpu:/"], {CPU: v1(q)}, None) for q in ("", "abc", "0", "-2")}


def build(root, mountinfo, cgroup, directories):
    files = {}
    for directory, texts in directories.items():
        files |= {f"sys/fs/cgroup/{directory}/{name}": text for name, text in texts.items()}
    for name, lines in (("mountinfo", mountinfo), ("cgroup", cgroup)):
        if lines:
            files[f"proc/self/{name}"] = "".join(f"{line}\n" for line in lines)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8", errors="surrogateescape")


@needs_linux
@pytest.mark.parametrize("name", SYSTEMS)
def test_quota(tmp_path, name):
    *system, expected = SYSTEMS[name]
    build(tmp_path, *system)
    assert cgroup_quota(tmp_path) == expected


def test_quota_of_unreadable_files(tmp_path):
    build(tmp_path, [V2], ["0::/a"], {"a": v2("300000 100000")})
    (tmp_path / "sys/fs/cgroup/a/cpu.max").write_bytes(b"\xff\x00 100000")
    (tmp_path / "sys/fs/cgroup/cpu.max").mkdir()
    assert cgroup_quota(tmp_path) is None


def test_a_change_of_quota_is_seen(tmp_path):
    build(tmp_path, [V2], ["0::/a"], {"a": v2("300000 100000")})
    assert cgroup_quota(tmp_path) == 3.0
    (tmp_path / "sys/fs/cgroup/a/cpu.max").write_text("100000 100000")
    assert cgroup_quota(tmp_path) == 1.0


# What is read, and how often


@pytest.fixture
def system(monkeypatch):
    """A system whose sources can be set, which counts how often they are read."""
    system = SimpleNamespace(affinity=8, quota=None, now=1000.0, reads=[], core=SimpleNamespace())
    system.core.openmp_enabled = lambda: True
    system.core.in_forked_child = lambda: False
    system.core.openmp_max_threads = lambda: 64

    def affinity():
        system.reads.append("affinity")
        return system.affinity

    def quota():
        system.reads.append("quota")
        return system.quota

    environment = dict.fromkeys(_threads.ENVIRONMENT, "")
    for name, fake in {
        "_core": system.core,
        "cpu_affinity": affinity,
        "cgroup_quota": quota,
        "time": SimpleNamespace(monotonic=lambda: system.now),
        "ENVIRONMENT": environment,
        "_requested": None,
        "_seen": _threads._Seen(),
    }.items():
        monkeypatch.setattr(_threads, name, fake)
    system.environment = environment
    _threads._quota.cache_clear()
    _threads._number_in_new_thread.cache_clear()
    yield system
    _threads._quota.cache_clear()
    _threads._number_in_new_thread.cache_clear()


@pytest.mark.parametrize(
    ("affinity", "quota", "number"),
    [(8, None, 8), (8, 2.0, 2), (8, 2.01, 3), (8, 0.1, 1), (2, 16.0, 2), (1, None, 1), (128, None, 64)],
)
def test_smallest(system, affinity, quota, number):
    system.affinity, system.quota = affinity, quota
    assert get_num_threads() == number


def test_sources_are_read_once_a_second(system):
    for _ in range(100):
        assert get_num_threads() == 8
    assert system.reads == ["affinity", "quota"]
    system.affinity, system.quota = 4, 3.0
    system.now += 0.9 * _threads.MEMORY
    assert get_num_threads() == 8
    system.now += 1.1 * _threads.MEMORY
    assert [get_num_threads(), get_num_threads()] == [3, 3]
    assert system.reads == 2 * ["affinity", "quota"]


def test_each_thread_has_its_own_affinity(system):
    assert get_num_threads() == 8
    system.affinity = 2
    assert in_new_thread(get_num_threads) == 2
    assert get_num_threads() == 8
    assert system.reads.count("quota") == 1


def test_a_report_reads_anew(system):
    assert get_num_threads() == 8
    system.affinity = 3
    assert _threads.thread_report().number == 3
    assert get_num_threads() == 3
    system.quota = 1.5
    assert _threads.thread_report().number == 2


def test_affinity_is_not_counted_when_openmp_set_it(system):
    system.affinity, system.environment["OMP_PROC_BIND"] = 1, "close"
    assert get_num_threads() == 64
    report = _threads.thread_report()
    assert report.number == 64
    assert "CPU affinity: 1, not counted as OMP_PROC_BIND pins threads" in report.why


def refuse(thread):
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("where", "name", "obstacle"),
    [(threading.Thread, "start", refuse), (sys, "is_finalizing", lambda: True)],
    ids=["no more threads", "shutting down"],
)
def test_without_a_new_thread_a_limit_is_not_seen(system, monkeypatch, where, name, obstacle):
    own = {threading.get_ident(): 12}
    system.core.openmp_max_threads = lambda: own.get(threading.get_ident(), 64)
    with monkeypatch.context() as patch:
        patch.setattr(where, name, obstacle)
        assert get_num_threads() == 8
        assert "OpenMP: 12 in this thread, unknown in a new one" in _threads.thread_report().why
    # Nothing of that is remembered.
    assert get_num_threads() == 12


def test_why(system, monkeypatch):
    system.quota = 2.5
    assert _threads.thread_report() == _threads.ThreadReport(
        number=3,
        why="the smallest of OpenMP's own number, the CPU affinity and the CPU quota rounded up ("
        "OMP_NUM_THREADS: not set; OpenMP: 64 in this thread, 64 in a new one; "
        "CPU affinity: 8; CPU quota: 2.5)",
    )

    system.environment["OMP_NUM_THREADS"] = "2,abc"
    report = _threads.thread_report()
    assert report.number == 3
    assert f"OMP_NUM_THREADS: '2,abc', ignored as it is no number from 1 to {LARGEST}; " in report.why

    system.environment["OMP_NUM_THREADS"] = "6,1"
    monkeypatch.setattr(_threads, "_requested", 6)
    report = _threads.thread_report()
    assert report.number == 6
    assert report.why.startswith("OMP_NUM_THREADS (OMP_NUM_THREADS: '6,1'; OpenMP: 64")

    main = threading.get_ident()
    system.core.openmp_max_threads = lambda: 12 if threading.get_ident() == main else 64
    report = _threads.thread_report()
    assert report.number == 12
    assert report.why.startswith("a limit is set in the calling thread (")
    assert "OpenMP: 12 in this thread, 64 in a new one" in report.why


@pytest.mark.parametrize(
    ("name", "answer", "rule"),
    [
        ("openmp_enabled", False, "tmapad was built without OpenMP ("),
        ("in_forked_child", True, "this process was forked from one that had imported tmapad: serial unless"),
    ],
)
def test_serial_whatever_else(system, monkeypatch, name, answer, rule):
    setattr(system.core, name, lambda: answer)
    system.core.openmp_max_threads = never
    monkeypatch.setattr(_threads, "_requested", 4)
    assert get_num_threads() == 1
    report = _threads.thread_report()
    assert report.number == 1
    assert report.why.startswith(rule)
    assert "OpenMP: not asked" in report.why


# Limits in this process


def in_new_thread(function):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def assert_limited(number):
    report = _threads.thread_report()
    assert report.number == number
    # Where 1 is the number of every thread, a limit of 1 is none.
    new = in_new_thread(_core.openmp_max_threads)
    assert report.why.startswith(LIMITED if new != number else (REQUESTED, SMALLEST))
    assert f"OpenMP: {number} in this thread, {new} in a new one" in report.why


@needs_openmp
def test_a_limit_holds_in_its_thread_alone():
    usual = get_num_threads()
    # Neither the default nor what affinity leaves, so that it can be told from both.
    many = 2 + max(usual, os.cpu_count())
    with threadpool_limits(many):
        assert get_num_threads() == many
        assert in_new_thread(get_num_threads) == usual
        with threadpool_limits(1):
            assert get_num_threads() == 1
            assert in_new_thread(get_num_threads) == usual
            assert_limited(1)
        assert_limited(many)
    assert get_num_threads() == usual


def test_a_call_changes_no_pool_and_no_variable():
    tmap(np.exp, np.ones(10))
    before = threadpool_info(), dict(os.environ)
    for num_threads in (1, 3, None):
        tmap(np.exp, np.ones(10**5), num_threads=num_threads)
        get_num_threads()
        _threads.thread_report()
    assert (threadpool_info(), dict(os.environ)) == before


# Whole processes


def run(code, **environment):
    """Run Python code in a process with these settings of threads alone; return what it prints as JSON."""
    settings = ("OMP_", "GOMP_", "KMP_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
    inherited["PYTHONPATH"] = str(Path(tmapad.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


PRINT_NUMBER = "import tmapad; print(tmapad.get_num_threads())"


@pytest.fixture(scope="module")
def usual():
    """The number in a process without any setting."""
    return run(PRINT_NUMBER)


def test_usual_number(usual):
    quota = cgroup_quota()
    expected = min(_threads.cpu_affinity(), math.ceil(quota) if quota else LARGEST)
    assert usual == (expected if OPENMP else 1)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("3", 3), ("2,1", 2), ("5,1", 5), *((text, None) for text in ("", "0", "abc", "1000000"))],
)
def test_variable(usual, text, number):
    assert run(PRINT_NUMBER, OMP_NUM_THREADS=text) == (number or usual if OPENMP else 1)


def test_variable_set_before_import_counts_and_later_does_not():
    code = """
        import os, numpy
        os.environ["OMP_NUM_THREADS"] = "5"
        import tmapad
        before = tmapad.get_num_threads()
        os.environ["OMP_NUM_THREADS"] = "3"
        print([before, tmapad.get_num_threads()])
        """
    assert run(code) == ([5, 5] if OPENMP else [1, 1])


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_a_limit_wins_over_the_variable(limit):
    code = f"""
        import tmapad, threadpoolctl
        with threadpoolctl.threadpool_limits({limit}):
            inside = tmapad.get_num_threads()
        print([inside, tmapad.get_num_threads()])
        """
    assert run(code, OMP_NUM_THREADS="3") == ([limit, 3] if OPENMP else [1, 1])


@needs_affinity
@pytest.mark.parametrize("place", ["before", "after"])
def test_affinity(place):
    # On one CPU this passes whatever tmapad does; the made-up systems above have several.
    narrow = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    lines = {"before": [narrow, "import tmapad"], "after": ["import tmapad", narrow]}[place]
    assert run("\n".join(["import os", *lines, "print(tmapad.get_num_threads())"])) == 1


@pytest.mark.parametrize("setting", [{"OMP_PROC_BIND": "true"}, {"OMP_PLACES": "threads"}], ids=repr)
def test_pinned_threads_are_not_taken_for_one_cpu(usual, setting):
    assert run(PRINT_NUMBER, **setting) == usual


def test_import_changes_no_variable():
    code = """
        import os, json
        before = dict(os.environ)
        import tmapad
        tmapad.get_num_threads()
        print(json.dumps(before == dict(os.environ)))
        """
    assert run(code) is True


@needs_fork
def test_a_forked_child_is_serial_by_default():
    code = """
        import os, sys, warnings
        import tmapad
        from tmapad._threads import thread_report
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            grandchild = os.fork()
            report = thread_report()
            ok = tmapad.get_num_threads() == report.number == 1
            if tmapad._core.openmp_enabled():
                ok = ok and report.why.startswith("this process was forked")
            if grandchild:
                ok = ok and os.waitpid(grandchild, 0)[1] == 0
            os._exit(0 if ok else 1)
        status = os.waitpid(child, 0)[1]
        print([status, tmapad.get_num_threads()])
        """
    assert run(code, OMP_NUM_THREADS="3") == [0, 3 if OPENMP else 1]


# Threads stay in OpenMP's pool after a call, so their number shows how many the largest call had.
COUNT_TASKS = """
    import os, numpy, threadpoolctl
    from tmapad import tmap
    x = numpy.linspace(0.0, 1.0, 10**6)
    before = len(os.listdir("/proc/self/task"))
    {call}
    print(len(os.listdir("/proc/self/task")) - before)
    """


@needs_tasks
@pytest.mark.parametrize(
    ("variable", "call", "started"),
    [
        ("3", "tmap(numpy.exp, x)", 2),
        ("1", "tmap(numpy.exp, x)", 0),
        ("3", "tmap(numpy.exp, x, num_threads=1)", 0),
        ("1", "tmap(numpy.exp, x, num_threads=4)", 3),
        ("3", "with threadpoolctl.threadpool_limits(1, 'openmp'): tmap(numpy.exp, x)", 0),
        ("1", "with threadpoolctl.threadpool_limits(2, 'openmp'): tmap(numpy.exp, x)", 1),
    ],
)
def test_a_call_uses_so_many_threads(variable, call, started):
    assert run(COUNT_TASKS.format(call=call), OMP_NUM_THREADS=variable) == (started if OPENMP else 0)
