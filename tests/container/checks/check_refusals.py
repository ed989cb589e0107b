"""What is missing is named with its fix, and nothing has run."""

import os

from checking import Skip, check, expect
from host import ENGINE, IS_ROOT, KIND, VARIABLES, Client, engine, is_contained, made, nothing_left


def refused(answer, *words):
    expect(answer.is_error and answer.text.startswith("Blocked: "), answer.text)
    for word in words:
        expect(word in answer.text, f"{word!r} is not in: {answer.text}")


@check("refusal-of-a-missing-image")
def image():
    with Client(IMAGE_PYTHON="localhost/vestibule-nowhere:1") as client:
        answer = client.call("bash", "true")
        refused(answer, "no image", f"`{ENGINE} pull localhost/vestibule-nowhere:1`", "call again")
        # Another language has another image.
        is_contained(client.call("node", "console.log(1)"), "1")


@check("refusal-of-an-image-that-lacks-something")
def poor_image():
    with Client(IMAGE_NODE=VARIABLES["VESTIBULE_IMAGE_PYTHON"]) as client:
        refused(client.call("node", "1"), "lacks node on its PATH")
        is_contained(client.call("bash", "echo x"), "x")


@check("refusal-when-an-image-goes-between-two-calls")
def image_goes():
    name = made("going", "ENV A=1")
    with Client(IMAGE_PYTHON=name) as client:
        is_contained(client.call("bash", "echo x"), "x")
        nothing_left()
        engine("rmi", name)
        answer = client.call("bash", "echo y")
        expect(answer.is_error and "isolation: none (nothing was executed: " in answer.text, answer.text)
        expect(f"{ENGINE} pull {name}" in answer.text, answer.text)
        refused(client.call("bash", "echo y"), f"`{ENGINE} pull {name}`")
    nothing_left()


@check("refusal-without-a-socket")
def socket():
    setting = {"docker": "DOCKER_HOST", "podman": "CONTAINER_HOST"}[ENGINE]
    nowhere = {setting: "unix:///nowhere/engine.sock"}
    previous = {setting: VARIABLES.get(setting)}
    VARIABLES.update(nowhere)
    try:
        with Client() as client:
            refused(client.call("bash", "true"), "does not run", "Fix: start")
    finally:
        VARIABLES.update(previous)
        if previous[setting] is None:
            del VARIABLES[setting]


@check("refusal-without-permission")
def permission():
    if KIND != "docker":
        raise Skip("the socket of a root's Docker alone has a group of its own")
    if not IS_ROOT:
        raise Skip("needs root, whose the socket is")
    path = VARIABLES["DOCKER_HOST"].removeprefix("unix://")
    mode = os.stat(path).st_mode
    os.chmod(path, 0o600)
    try:
        with Client() as client:
            refused(client.call("bash", "true"), "usermod -aG docker", "as good as root")
    finally:
        os.chmod(path, mode & 0o777)


@check("refusal-of-a-workspace-with-a-comma")
def comma():
    with Client(WORKSPACE="~/.vestibule/a,b") as client:
        refused(client.call("bash", "true"), "comma", "VESTIBULE_WORKSPACE")
