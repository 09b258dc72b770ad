"""`nvidia-smi mig` and MIG mode: instances are the driver's and the GPU's memory, gone with a reboot."""

import os
import sys
import uuid

import state as hardware

# Where the driver looks first, and the instance IDs that it gives by size and place (from logs of A100s
# and H100s in public).
PLACES = (4, 5, 6, 0, 1, 2, 3)
INSTANCE_IDS = {
    8: {0: 0},
    4: {4: 1, 0: 2},
    2: {0: 3, 2: 4, 4: 5, 6: 6},
    1: {4: 7, 5: 8, 6: 9, 0: 11, 1: 12, 2: 13, 3: 14},
}
NOT_FOUND, IN_USE, INSUFFICIENT = 6, 19, 19
COMPUTE_SLICES, COPY_ENGINES = 7, 8
# Of instances by their compute and memory slices, from `nvidia-smi mig -lgip` of an H100 and an H200.
MULTIPROCESSORS = {(1, 1): 16, (1, 2): 26, (2, 2): 32, (3, 4): 60, (4, 4): 64, (7, 8): 132}
MEMORY_GIB = {
    "NVIDIA H100 80GB HBM3": {1: 9.75, 2: 19.62, 4: 39.50, 8: 79.25},
    "NVIDIA H200": {1: 16.00, 2: 32.50, 4: 69.75, 8: 140.00},
}


def fail(code, text):
    print(text)
    sys.exit(code)


def modes(gpu):
    """Current and pending mode as nvidia-smi prints them."""
    if not gpu.get("mig_profiles"):
        return "[N/A]", "[N/A]"
    word = {True: "Enabled", False: "Disabled"}
    now = bool(hardware.setting(f"mig_{gpu['minor']}", gpu["mig"]))
    return word[now], word[bool(hardware.setting(f"mig_pending_{gpu['minor']}", now))]


def enabled(gpu):
    return modes(gpu)[0] == "Enabled"


def set_mode(gpu, bus, wanted):
    """Turns it on or off; one that somebody has open, or with instances, does not change."""
    on = wanted in ("1", "ENABLED")
    word = "Enabled" if on else "Disabled"
    if not gpu.get("mig_profiles"):
        fail(3, f"Unable to set MIG mode for GPU {bus}: Not Supported\nTreating as warning and moving on.")
    if os.geteuid() != 0:
        fail(4, f"Unable to set MIG mode for GPU {bus}: Insufficient Permissions")
    if not on and instances(gpu):
        fail(IN_USE, f"Unable to disable MIG Mode for GPU {bus}: In use by another client")
    hardware.change_setting(f"mig_pending_{gpu['minor']}", on)
    if gpu.get("mig_held"):
        state = "enable" if on else "disable"
        print(f"Warning: MIG mode is in pending {state} state for GPU {bus}:In use by another client")
        return
    hardware.change_setting(f"mig_{gpu['minor']}", on)
    print(f"{word} MIG Mode for GPU {bus}")


def instances(gpu):
    return hardware.setting(f"mig_instances_{gpu['minor']}", [])


def keep(gpu, found):
    hardware.change_setting(f"mig_instances_{gpu['minor']}", found)


def profile(gpu, name):
    """The profile of an ID or a name."""
    for item in gpu["mig_profiles"]:
        if name in (str(item["id"]), item["name"], f"MIG {item['name']}"):
            return item
    return None


def taken(gpu):
    mask = 0
    for item in instances(gpu):
        mask |= ((1 << item["size"]) - 1) << item["start"]
    return mask


def free_places(gpu, item):
    slices = sum(profile(gpu, str(each["id"]))["compute_slices"] for each in instances(gpu))
    of_kind = sum(each["id"] == item["id"] for each in instances(gpu))
    if slices + item["compute_slices"] > COMPUTE_SLICES or of_kind >= item["most"]:
        return []
    used = taken(gpu)
    size = (1 << item["memory_slices"]) - 1
    return [start for start in PLACES if start in item["starts"] and not used & (size << start)]


def main(state, chosen, words):
    """The verbs that roles use."""
    known = [(index, hardware.gpus(state)[index]) for index in chosen]
    # Profiles and their places are listed in any mode.
    if "-lgip" in words:
        return list_profiles(known)
    if "-lgipp" in words:
        return list_places(known)
    found = [(index, gpu) for index, gpu in known if enabled(gpu)]
    if not found:
        fail(0 if {"-lgi", "-lci", "-lcip"} & set(words) else NOT_FOUND, "No MIG-enabled devices found.")
    if "-lgi" in words:
        return list_instances(found)
    if "-lci" in words:
        return list_compute(found)
    if os.geteuid() != 0:
        fail(4, "Insufficient Permissions")
    if "-cgi" in words:
        return create(found, words[words.index("-cgi") + 1].split(","), "-C" in words)
    if "-dci" in words:
        return destroy_compute(found)
    if "-dgi" in words:
        return destroy(found)
    return fail(2, f"Invalid combination of input arguments: mig {' '.join(words)}")


def list_profiles(found):
    """The table of a real H100 and H200 (driver 580.159.04): two lines a profile, and a border below."""
    bar = "+-------------------------------------------------------------------------------+"
    print(f"{bar}\n| GPU instance profiles:                                                        |")
    print("| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |")
    print("|                                Free/Total   GiB              CE    JPEG  OFA  |")
    print("|===============================================================================|")
    for index, gpu in found:
        for item in gpu["mig_profiles"]:
            whole = item["compute_slices"] == COMPUTE_SLICES
            count, engines = item["compute_slices"], COPY_ENGINES if whole else item["compute_slices"]
            places, memory = f"{_most_more(gpu, item)}/{item['most']}", _memory(gpu, item)
            print(
                f"|   {index}  MIG {item['name']:<16}{item['id']:>2}     {places:<11}{memory:<11.2f}"
                f"No     {_multiprocessors(gpu, item):<7}{count}     0   |"
            )
            flow = int(whole or item["name"].endswith("+me"))
            print(f"|{'':<63}{engines}     {count}     {flow}   |")
            print(bar)
    return 0


def _memory(gpu, item):
    """GiB of an instance; of GPUs that were not captured the figure in the profile's name."""
    return MEMORY_GIB.get(gpu["name"], {}).get(item["memory_slices"], item["memory_gib"])


def _multiprocessors(gpu, item):
    size = item["compute_slices"], item["memory_slices"]
    return MULTIPROCESSORS[size] if gpu["architecture"] == "Hopper" else 16 * item["compute_slices"]


def _most_more(gpu, item):
    """How many more of one profile fit."""
    count, used = 0, taken(gpu)
    if not free_places(gpu, item):
        return 0
    for start in item["starts"]:
        mask = ((1 << item["memory_slices"]) - 1) << start
        if not used & mask:
            used |= mask
            count += 1
    return min(count, item["most"])


def list_places(found):
    for index, gpu in found:
        for item in gpu["mig_profiles"]:
            starts = ",".join(map(str, item["starts"]))
            word = "Placements:" if len(item["starts"]) > 1 else "Placement :"
            print(f"GPU  {index} Profile ID {item['id']:>2} {word} {{{starts}}}:{item['memory_slices']}")
    return 0


def list_instances(found):
    rows = [
        f"|   {index}  MIG {each['name']:<14} {each['id']:>2}       {each['gi']:>2}          "
        f"{each['start']}:{each['size']}     |"
        for index, gpu in found
        for each in instances(gpu)
    ]
    if not rows:
        fail(NOT_FOUND, "No GPU instances found: Not Found")
    bar = "+---------------------------------------------------------+"
    print(f"{bar}\n| GPU instances:                                          |")
    print("| GPU   Name               Profile  Instance   Placement  |")
    print("|                            ID       ID       Start:Size |")
    for row in rows:
        print(f"|=========================================================|\n{row}")
    print(bar)
    return 0


def list_compute(found):
    rows = [
        f"|   {index}     {each['gi']:>2}       MIG {each['name']:<14} {each['ci']:>2}         "
        f"{each['ci']:>2}"
        f"          0:{profile(gpu, str(each['id']))['compute_slices']}     |"
        for index, gpu in found
        for each in instances(gpu)
        if each["ci"] is not None
    ]
    if not rows:
        fail(NOT_FOUND, "No compute instances found: Not Found")
    print("| Compute instances:                                                 |")
    print("\n".join(rows))
    return 0


def create(found, names, compute):
    for index, gpu in found:
        for name in names:
            item = profile(gpu, name)
            if item is None:
                fail(2, f"Unable to parse profile {name!r}: Invalid Argument")
            places = free_places(gpu, item)
            if not places:
                print(
                    f"Unable to create a GPU instance on GPU  {index} using profile {item['id']}: "
                    "Insufficient Resources"
                )
                fail(INSUFFICIENT, "Failed to create GPU instances: Insufficient Resources")
            start = places[0]
            number = INSTANCE_IDS[item["memory_slices"]][start]
            made = {"gi": number, "id": item["id"], "name": item["name"], "start": start}
            made |= {"size": item["memory_slices"], "ci": 0 if compute else None}
            keep(gpu, [*instances(gpu), made])
            print(
                f"Successfully created GPU instance ID {number:>2} on GPU  {index} using profile MIG "
                f"{item['name']} (ID {item['id']:>2})"
            )
            first = hardware.capability(gpu["minor"], number)
            make_files(first, first + 1)
    return 0


def make_files(*numbers):
    """The capability files of an instance; they are /dev/null to whoever opens them."""
    folder = hardware.Path("/dev/nvidia-caps")
    folder.mkdir(exist_ok=True)
    for number in numbers:
        path = folder / f"nvidia-cap{number}"
        if not path.exists():
            os.mknod(path, 0o020444, os.makedev(1, 3))
            path.chmod(0o444)


def destroy_compute(found):
    for index, gpu in found:
        there = [each for each in instances(gpu) if each["ci"] is not None]
        if not there:
            fail(NOT_FOUND, "No compute instances found: Not Found")
        keep(gpu, [each | {"ci": None} for each in instances(gpu)])
        for each in there:
            print(
                f"Successfully destroyed compute instance ID  {each['ci']} from GPU  {index} "
                f"GPU instance ID {each['gi']:>2}"
            )
    return 0


def destroy(found):
    for index, gpu in found:
        there = instances(gpu)
        if not there:
            fail(NOT_FOUND, "No GPU instances found: Not Found")
        for each in there:
            if each["ci"] is not None:
                fail(
                    IN_USE,
                    f"Unable to destroy GPU instance ID {each['gi']:>2} from GPU  {index}: "
                    "In use by another client",
                )
            first = hardware.capability(gpu["minor"], each["gi"])
            for number in (first, first + 1):
                hardware.Path(f"/dev/nvidia-caps/nvidia-cap{number}").unlink(missing_ok=True)
            print(f"Successfully destroyed GPU instance ID {each['gi']:>2} from GPU  {index}")
        keep(gpu, [])
    return 0


def list_devices(gpu):
    """The instances below their GPU, in `nvidia-smi -L`."""
    if not enabled(gpu):
        return
    ready = [each for each in instances(gpu) if each["ci"] is not None]
    for number, each in enumerate(ready):
        name = uuid.uuid5(uuid.NAMESPACE_DNS, f"{gpu['uuid']}/{each['gi']}/{each['ci']}")
        print(f"  MIG {each['name']:<15} Device {number:>2}: (UUID: MIG-{name})")
