//! Python: environments, packages without an index, tests.

use crate::desk::{Desk, each};
use crate::table::PYTHON;

/// A wheel is a zip archive with three files that describe it.
const WHEEL: &str = r#"
import zipfile
with zipfile.ZipFile("tiny-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("tiny.py", "def seven():\n    return 7\n\n\ndef main():\n    print('ran')\n")
    wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("tiny-1.0.dist-info/entry_points.txt", "[console_scripts]\ntiny = tiny:main\n")
    wheel.writestr("tiny-1.0.dist-info/RECORD", "")
"#;

/// M1: in a root of its own too.
#[test]
fn environments_packages_and_tests() {
    each(&PYTHON, packages);
}

fn packages(desk: Desk) {
    desk.write("requirements.txt", "");
    desk.write("wheel.py", WHEEL);
    desk.write(
        "test_tiny.py",
        "import unittest\n\n\nclass Test(unittest.TestCase):\n    def test(self):\n        import os, \
             tempfile\n        with tempfile.TemporaryDirectory() as d:\n            \
             self.assertTrue(d.startswith(os.environ['TMPDIR']))\n",
    );
    desk.write_home(".config/pip/pip.conf", "[global]\nindex-url = https://ada:SECRET@example.com/\ntimeout = 7\n");
    desk.works(&[
        (
            "an environment is made",
            "/usr/bin/python3 -m venv env && env/bin/python -c 'import sys; \
                 assert sys.prefix != sys.base_prefix'",
        ),
        ("a package is made", "python3 wheel.py && test -e tiny-1.0-py3-none-any.whl"),
        (
            "it is installed without an index",
            "env/bin/pip install -q --no-index ./tiny-1.0-py3-none-any.whl && \
                 env/bin/python -c 'import tiny; assert tiny.seven() == 7'",
        ),
        ("its program runs", "test \"$(env/bin/tiny)\" = ran"),
        (
            "what is installed is listed and removed",
            "env/bin/pip list 2> /dev/null | grep -q tiny && env/bin/pip uninstall -qy tiny && \
                 ! env/bin/python -c 'import tiny' 2> /dev/null",
        ),
        (
            "an environment is entered",
            "source env/bin/activate && test \"$(command -v python)\" = \"$VIRTUAL_ENV/bin/python\" && \
                 python -c ''",
        ),
        ("tests run", "python3 -m unittest -q"),
        ("a module is compiled ahead", "python3 -m compileall -q wheel.py && test -d __pycache__"),
        (
            "the settings go along without the password",
            "test \"$(env/bin/pip config get global.timeout)\" = 7 && ! grep -rq SECRET \"$HOME\"",
        ),
        (
            "certificates of the system are trusted",
            "python3 -c 'import ssl; assert ssl.create_default_context().cert_store_stats()[\"x509_ca\"] > 0'",
        ),
    ]);
}
