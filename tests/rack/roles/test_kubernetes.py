"""Kubernetes within the limits of a rack in a box: the API address on its members, and refused hosts.

No kubelet runs here: tests/rack/kubernetes starts a whole cluster. What answers at port 6443 is a stand-in
for the API server, which says who it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.kube.certificates import Authority
from tests.rack.lab import Lab
from tests.rack.roles.proof import RoleRuns, play, prove

MEMBERS = ("ctl01", "ctl02", "login01")
ADDRESS = "10.90.0.9"
MOVED_S = 60.0
"""Seconds for the address to move: five when idle, more where many racks share two processors."""

API = """\
import http.server, socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/opt/api.pem")
class Api(http.server.BaseHTTPRequestHandler):
    def setup(self):  # in its own thread: a client lost in mid handshake blocks no other
        self.request = context.wrap_socket(self.request, server_side=True)
        super().setup()
    def finish(self):
        super().finish(); self.request.close()
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(socket.gethostname().encode())
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer((sys.argv[1], 6443), Api).serve_forever()
"""
ASK = f"""\
import ssl, urllib.request
context = ssl._create_unverified_context()
with urllib.request.urlopen("https://{ADDRESS}:6443/readyz", timeout=10, context=context) as answer:
    print(answer.read().decode())
"""


@pytest.fixture(scope="module")
def lab(rack: Lab) -> Iterator[Lab]:
    yield rack
    rack.reset(*MEMBERS)


@pytest.fixture(scope="module")
def endpoint(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> RoleRuns:
    """The role on three hosts: check run, run, and a second run without changes."""
    members = [{"name": name, "address": lab.rack.site.host(name).ip} for name in MEMBERS]
    values = {"kubernetes_endpoint_address": ADDRESS, "kubernetes_endpoint_members": members}
    done = prove(lab, ["kubernetes_endpoint"], ",".join(MEMBERS), variables=values)
    certificate, key = Authority(tmp_path_factory.mktemp("api")).issue("api", "api")
    for member in members:
        lab.sh(member["name"], _api(certificate.read_text() + key.read_text(), member["address"]))
    return done


def _api(pem: str, address: str) -> str:
    text = json.dumps({"api.py": API, "api.pem": pem})
    write = (
        "import json, pathlib\n"
        f"for name, text in json.loads({text!r}).items(): pathlib.Path('/opt', name).write_text(text)"
    )
    return f"python3 - <<'END'\n{write}\nEND\nsystemd-run -q --unit=api python3 /opt/api.py {address}\n"


def holders(lab: Lab, *hosts: str) -> list[str]:
    """The hosts that have the virtual address."""
    return [name for name in hosts if f" {ADDRESS}/" in lab.sh(name, "ip -4 -o address show")]


def settled(lab: Lab, *hosts: str) -> str:
    """The only host with the address, once the API answers there."""
    deadline = time.monotonic() + MOVED_S
    while True:
        found = holders(lab, *hosts)
        answer = lab.sh("dgx01", f"python3 - <<'END'\n{ASK}END\n", code=None).strip()
        if len(found) == 1 and answer:
            return found[0]
        assert time.monotonic() < deadline, f"held by {found}, and the API says {answer!r}"
        time.sleep(1)


def test_role_does_what_check_mode_reports_and_one_member_holds_the_address(
    lab: Lab, endpoint: RoleRuns
) -> None:
    assert {host for host, _ in endpoint.first.changed} == set(MEMBERS)
    settled(lab, *MEMBERS)
    for name in MEMBERS:
        assert lab.sh(name, "systemctl is-active haproxy keepalived").split() == ["active", "active"]


def test_address_moves_when_haproxy_of_its_holder_stops_and_does_not_move_back(
    lab: Lab, endpoint: RoleRuns
) -> None:
    first = settled(lab, *MEMBERS)
    lab.sh(first, "systemctl stop haproxy")
    others = [name for name in MEMBERS if name != first]
    second = settled(lab, *others)
    lab.sh(first, "systemctl start haproxy; sleep 5")
    assert holders(lab, *MEMBERS) == [second]


def test_address_moves_when_its_holder_loses_power(lab: Lab, endpoint: RoleRuns) -> None:
    first = settled(lab, *MEMBERS)
    since = int(time.time())
    lab.rack.stop(first, force=True)
    others = [name for name in MEMBERS if name != first]
    second = settled(lab, *others)
    # Until haproxy has detected the failed API, it drops a client or two.
    down = f"journalctl -q -o cat -t haproxy --since @{since} | grep 'members/{first} is DOWN'"
    lab.sh(second, f"for try in $(seq {MOVED_S:.0f}); do {down} && exit 0; sleep 1; done; exit 1")
    answers = {lab.sh("dgx01", f"python3 - <<'END'\n{ASK}END\n").strip() for _ in range(4)}
    assert answers <= set(others)


@pytest.mark.parametrize("role", ["kubernetes_node", "kubernetes_control_plane"])
def test_hosts_with_cgroup_v1_are_refused_before_any_change(lab: Lab, role: str) -> None:
    if "v2" in lab.sh("dgx02", "test -e /sys/fs/cgroup/cgroup.controllers && echo v2", code=None):
        pytest.skip("this machine has cgroup v2, which is not refused")
    member = {"name": "dgx02", "address": lab.rack.site.host("dgx02").ip}
    values = {
        "version": "1.35.4",
        "endpoint": f"{ADDRESS}:6443",
        "first_member": "dgx02",
        "cluster": "lab",
        "members": [member],
        "kubelets": [member],
        "cni_version": "3.32.2",
        "helm_version": "3.0.0",
    }
    needed = (
        ("version", "endpoint", "first_member")
        if role == "kubernetes_node"
        else values.keys() - {"first_member"}
    )
    variables = {f"{role}_{name}": values[name] for name in needed}
    if role == "kubernetes_control_plane":
        variables[f"{role}_encryption_key"] = "A" * 43 + "="
    done = play(lab, [role], "dgx02", variables=variables)
    assert done.result.failed_hosts == ("dgx02",)
    assert "runs with cgroup v1" in done.messages() and "does not start there" in done.messages()
    assert not done.changed
    assert lab.sh("dgx02", "ls -d /etc/kubernetes /usr/lib/gpufleet/etcd-backup", code=None) == ""
