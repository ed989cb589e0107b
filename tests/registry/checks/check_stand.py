"""The stand itself: a registry that did not misbehave as a check believes would prove nothing."""

import http.client
import json
import ssl
import urllib.error
import urllib.request

from checking import check, expect

import daemons
import oci
import stand
from front import flipped
from stand import STAND, front


def get(url, **headers):
    context = ssl.create_default_context(cafile=daemons.authority()[0])
    context.check_hostname = True
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=20, context=context
        ) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


@check("stand-plain")
def plain():
    url = f"http://{STAND.plain.address}/v2/library/tiny"
    code, headers, body = get(f"{url}/manifests/{stand.tiny().digest}", Accept=oci.INDEX)
    expect((code, body) == (200, stand.tiny().bytes), (code, body[:200]))
    blob = next(iter(stand.tiny().manifests[1].blobs.items()))
    code, headers, body = get(f"{url}/blobs/{blob[0]}", Range="bytes=5-")
    expect((code, body) == (206, blob[1][5:]), code)


@check("stand-password")
def password():
    url = f"http://{STAND.password.address}/v2/"
    wrong = daemons.BASIC[:-4] + "AAA="
    codes = [get(url, **headers)[0] for headers in ({}, {"Authorization": daemons.BASIC}, {"Authorization": wrong})]
    expect(codes == [401, 200, 401], codes)


@check("stand-hub")
def hub():
    STAND.registry.push("library/tiny", stand.tiny())
    url = f"https://{STAND.hub.address}/v2/library/tiny"
    path = f"{url}/manifests/{stand.tiny().digest}"
    code, headers, _ = get(path, Accept=oci.INDEX)
    expect(code == 401 and "Bearer realm=" in headers["Www-Authenticate"], code)
    scope = "repository:library/tiny:pull"
    _, _, body = get(f"{STAND.hub.behind.url}/token?service={daemons.SERVICE}&scope={scope}")
    bearer = "Bearer " + json.loads(body)["token"]
    code, _, body = get(path, Accept=oci.INDEX, Authorization=bearer)
    expect((code, body) == (200, stand.tiny().bytes), (code, body[:200]))
    blob = next(iter(stand.tiny().manifests[1].blobs))
    # A careless client takes the header along, and is refused.
    code, _, _ = get(f"{url}/blobs/{blob}", Authorization=bearer)
    expect(code == 400 and STAND.hub.leaked, f"{code} {STAND.hub.leaked}")
    STAND.hub.leaked.clear()
    context = ssl.create_default_context(cafile=daemons.authority()[0])
    opener = urllib.request.build_opener(Stay, urllib.request.HTTPSHandler(context=context))
    try:
        opener.open(urllib.request.Request(f"{url}/blobs/{blob}", headers={"Authorization": bearer}), timeout=20)
        code = 200
    except urllib.error.HTTPError as answer:
        code, place = answer.code, answer.headers["Location"]
    expect(code == 307 and place.startswith(f"https://127.0.0.1:{STAND.hub.behind.port}/"), code)
    code, _, body = get(place)
    expect((code, oci.digest_of(body)) == (200, blob), code)


@check("stand-front")
def ours():
    expect(STAND.tiny_node, "nothing is pushed")
    blob, data = next(iter(stand.tiny().manifests[1].blobs.items()))
    changed = flipped(data)
    expect(len(changed) == len(data) and changed != data, "nothing is flipped")
    rule = lambda asked, handler: asked.kind == "blobs" and handler.reply(200, data, cut=len(data) // 2)  # noqa: E731
    with front() as good, front(rule) as cutting:
        code, _, body = get(f"{good.url}/v2/library/tiny/blobs/{blob}", Range="bytes=7-")
        expect((code, body) == (206, data[7:]), code)
        try:
            get(f"{cutting.url}/v2/library/tiny/blobs/{blob}")
        except http.client.IncompleteRead:
            pass
        else:
            expect(False, "the whole of it came")
        expect([one.range for one in good.asked("blobs")] == ["bytes=7-"], "not recorded")
