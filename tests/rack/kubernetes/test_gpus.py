"""GPUs for pods: NVIDIA's device plugin on the rack's GPUs, and Kueue's admissions for teams."""

from __future__ import annotations

from tests.rack.kubernetes.cluster import NODES, Cluster, job_of, pod_of

COUNT = "ls /dev | grep -c '^nvidia[0-9]' || true"


def running(cluster: Cluster, team: str, job: str) -> set[str]:
    """The nodes on which pods of a job run."""
    pods = cluster.get("pods", "-n", team, "-l", f"job-name={job}")["items"]
    return {pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running"}


def pods_of(cluster: Cluster, team: str, job: str) -> int:
    """The number of a job's pods that have not ended."""
    pods = cluster.get("pods", "-n", team, "-l", f"job-name={job}")["items"]
    return sum(pod["status"]["phase"] in ("Pending", "Running") for pod in pods)


def reserved(cluster: Cluster, team: str, job: str) -> tuple[str, str]:
    """(status, message) of the condition QuotaReserved of a job's workload."""
    found = [
        condition
        for workload in cluster.get("workloads", "-n", team)["items"]
        if workload["metadata"]["ownerReferences"][0]["name"] == job
        for condition in workload.get("status", {}).get("conditions", ())
        if condition["type"] == "QuotaReserved"
    ]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


def test_pod_gets_eight_gpus_of_its_node(cluster: Cluster) -> None:
    allocatable = {
        node["metadata"]["name"]: node["status"]["allocatable"].get("nvidia.com/gpu")
        for node in cluster.get("nodes")["items"]
    }
    assert {name: allocatable[name] for name in NODES} == dict.fromkeys(NODES, "8")
    wanted = {"limits": {"nvidia.com/gpu": "8"}}
    assert cluster.run_pod(pod_of("eight", COUNT, "research", resources=wanted)) == "8\n"


def test_pod_without_gpus_sees_none_even_if_its_environment_asks_for_all(cluster: Cluster) -> None:
    pod = pod_of("none", COUNT, nodeName=NODES[0])
    pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert cluster.run_pod(pod) == "0\n"


def test_team_gets_its_gpus_back_from_a_whole_gang(cluster: Cluster) -> None:
    """serving borrows all 16 GPUs; research asks for 8 of its own, and the gang returns as a whole."""
    cluster.apply(job_of("gang", "serving", pods=2, gpus=8))
    cluster.wait("the gang runs on both nodes", lambda: running(cluster, "serving", "gang") == set(NODES))

    cluster.apply(job_of("owner", "research", pods=1, gpus=8))
    cluster.wait("the owner runs", lambda: len(running(cluster, "research", "owner")) == 1)
    cluster.wait("no part of the gang is left", lambda: pods_of(cluster, "serving", "gang") == 0)
    status, message = reserved(cluster, "serving", "gang")
    assert status == "False" and "gpu" in message, message

    cluster.kubectl("delete", "job", "owner", "-n", "research")
    cluster.wait("the gang runs again", lambda: running(cluster, "serving", "gang") == set(NODES))
    cluster.kubectl("delete", "job", "gang", "-n", "serving")


def test_job_beyond_the_limit_of_its_team_never_starts(cluster: Cluster) -> None:
    cluster.apply(job_of("large", "research", pods=3, gpus=8))
    status, message = cluster.wait(
        "Kueue answers",
        lambda: reserved(cluster, "research", "large")[1] and reserved(cluster, "research", "large"),
    )
    assert status == "False" and "nvidia.com/gpu" in message, message
    assert pods_of(cluster, "research", "large") == 0
    cluster.kubectl("delete", "job", "large", "-n", "research")


def test_higher_priority_takes_the_place_of_a_lower_one_in_a_team(cluster: Cluster) -> None:
    cluster.apply(job_of("low", "research", pods=2, gpus=8, priority="gpufleet-low"))
    cluster.wait("the job of low priority runs", lambda: len(running(cluster, "research", "low")) == 2)
    cluster.apply(job_of("urgent", "research", pods=2, gpus=8, priority="gpufleet-high"))
    cluster.wait("the urgent job runs", lambda: len(running(cluster, "research", "urgent")) == 2)
    assert pods_of(cluster, "research", "low") == 0
    cluster.kubectl("delete", "job", "low", "urgent", "-n", "research")


def test_priority_above_that_of_the_team_is_refused(cluster: Cluster) -> None:
    above = job_of("above", "serving", priority="gpufleet-high")
    assert "priority gpufleet-high is above the team's" in cluster.refusal(above)
