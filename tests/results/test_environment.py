"""What is told of the machine, and what is not."""

import json

from testbed.results.environment import describe_environment


def test_only_listed_variables_are_taken() -> None:
    environment = describe_environment({"LANG": "C", "AWS_SECRET_ACCESS_KEY": "hush", "PATH": "/bin"})
    assert environment["variables"] == {"LANG": "C"}
    assert "hush" not in json.dumps(environment)


def test_the_machine_is_described() -> None:
    environment = describe_environment({})
    assert environment["machine"]["cores"] >= 1
    assert environment["kernel"]["release"]
    assert environment["packages"]["numpy"]
    assert {"testbed", "git_revision", "python", "tools", "system"} <= set(environment)
