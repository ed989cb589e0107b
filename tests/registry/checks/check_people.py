"""Registries that want to know who asks."""

import base64
import json
import os

from checking import expect

import daemons
import oci
import stand
from front import Tokens
from host import Home, give
from points import proves
from stand import STAND, at, front, home, is_tiny


def configured(place, address, secret=daemons.SECRET, **auths):
    """A folder with `config.json` as `docker login` leaves it."""
    folder = os.path.join(place.path, "docker")
    os.makedirs(folder, exist_ok=True)
    auth = base64.b64encode(f"{daemons.PERSON}:{secret}".encode()).decode()
    with open(os.path.join(folder, "config.json"), "w") as out:
        json.dump({"auths": {address: {"auth": auth}, **auths}} if address else {}, out)
    for name in (folder, os.path.join(folder, "config.json")):
        give(name)
    return folder


def with_password():
    STAND.registry.push("library/tiny", stand.tiny())
    pin = at(STAND.password.address, {"IMAGE_PYTHON": STAND.tiny_node, "IMAGE_NODE": STAND.tiny_node})
    return Home(**pin)


def is_silent(done):
    """No secret is shown, in any of its forms."""
    for word in (daemons.SECRET, daemons.BASIC.removeprefix("Basic "), "wrong-horse"):
        expect(word not in done.text, f"the secret is shown: {done.text[-600:]}")
    return done


@proves("people-password", 15)
def password():
    with with_password() as place:
        folder = configured(place, STAND.password.address)
        is_silent(place.setup(_DOCKER_CONFIG=folder)).is_blocked()
        is_tiny(place)


@proves("people-default-place", 15)
def default_place():
    """Without DOCKER_CONFIG, it is ~/.docker/config.json."""
    with with_password() as place:
        os.rename(configured(place, STAND.password.address), os.path.join(place.path, ".docker"))
        is_silent(place.setup()).is_blocked()
        is_tiny(place)


@proves("people-nobody", 15)
def nobody():
    with with_password() as place:
        words = "no access", "docker login", STAND.password.address
        is_silent(place.setup()).is_error(*words)
        is_silent(place.setup(_DOCKER_CONFIG=configured(place, "elsewhere.example"))).is_error(*words)
        is_silent(place.setup(_DOCKER_CONFIG=configured(place, None))).is_error(*words)


@proves("people-wrong-password", 15)
def wrong():
    with with_password() as place:
        folder = configured(place, STAND.password.address, "wrong-horse")
        done = is_silent(place.setup(_DOCKER_CONFIG=folder))
        done.is_error("no access", "docker login", STAND.password.address)


@proves("people-broken-file", 15)
def broken():
    """A file that cannot be read is named; what needs none goes on."""
    with with_password() as place:
        folder = configured(place, STAND.password.address)
        with open(os.path.join(folder, "config.json"), "w") as out:
            out.write('{"auths": {"right-horse"')
        done = is_silent(place.setup(_DOCKER_CONFIG=folder)).is_error(STAND.password.address)
        expect(os.path.join(folder, "config.json") in done.err, f"not named: {done.err}")


@proves("people-token", 15)
def token():
    """The password goes to the token service, the token to the registry, and nothing beyond."""
    made = stand.tiny(b"people")
    with front() as away:
        away.pin(made)
        move = lambda asked, handler: (
            asked.kind == "blobs"
            and handler.reply(  # noqa: E731
                307, b"", Location=f"http://localhost:{away.port}{asked.path}"
            )
        )
        with front(Tokens(basic=daemons.BASIC, then=move)) as registry, home() as place:
            pin = registry.pin(made)
            is_silent(place.setup(IMAGE_PYTHON=pin)).is_error("no access", "docker login")
            folder = configured(place, registry.address)
            is_silent(place.setup(IMAGE_PYTHON=pin, _DOCKER_CONFIG=folder)).is_blocked()
            is_tiny(place, made, b"people")
            kinds = {one.kind for one in registry.requests if (one.authorization or "").startswith("Basic")}
            expect(kinds == {"token"}, f"the password went with {kinds}")
        leaked = [one.authorization for one in away.requests if one.authorization]
        expect(away.asked("blobs") and not leaked, f"beyond the registry: {leaked}")


@proves("people-login-for-https", 15)
def login_for_https():
    """A login that is kept for https:// does not go to whoever listens at the port without."""
    made = stand.tiny(b"people")
    with front(Tokens(basic=daemons.BASIC)) as registry, home() as place:
        pin = registry.pin(made)
        folder = configured(place, f"https://{registry.address}/v2/")
        done = is_silent(place.setup(IMAGE_PYTHON=pin, _DOCKER_CONFIG=folder))
        done.is_error("no access", "was not sent", "docker login " + registry.address)
        shown = [one.kind for one in registry.requests if (one.authorization or "").startswith("Basic")]
        expect(registry.requests and not shown, f"shown with {shown}")
        folder = configured(place, f"http://{registry.address}")
        is_silent(place.setup(IMAGE_PYTHON=pin, _DOCKER_CONFIG=folder)).is_blocked()
        is_tiny(place, made, b"people")


@proves("people-other-registry", 15)
def other_registry():
    """The password of one registry is never shown to another."""
    made = oci.for_both(oci.simple([]))
    with front(Tokens()) as registry, home() as place:
        folder = configured(place, STAND.password.address)
        place.setup(IMAGE_PYTHON=registry.pin(made), _DOCKER_CONFIG=folder)
        shown = [one.kind for one in registry.requests if (one.authorization or "").startswith("Basic")]
        expect(registry.requests and not shown, f"shown with {shown}")
