/*
 * NVML on the hardware of a host: the functions that NVIDIA's container toolkit and device plugin call.
 *
 * The hardware is /srv/hardware/gpus, which the kit's hardware/state.py writes with every change. It is a file
 * that is written in place, so that a container in which it is mounted sees changes too. Functions and structures
 * are those of nvml.h, which says for each of them what it returns for a GPU that is lost. A function that is
 * missing here ends a program with the function's name ("symbol lookup error"). MIG mode is always off here.
 * What an H100 and an H200 return is in tests/captured (nvml.json).
 *
 * DRIVER is the driver's version, CUDA its version of CUDA as cuDriverGetVersion writes it.
 */
#include <fcntl.h>
#include <nvml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#ifndef HARDWARE
#define HARDWARE "/srv/hardware/gpus"
#endif
/* A host has the version of its loaded driver here. A container has only the device files. */
#ifndef KERNEL
#define KERNEL "/run/hardware"
#endif
#define MOST 16
#define LINKS NVML_NVLINK_MAX_LINKS
#define POLL_MS 200
/* What the driver keeps of an H100's memory; nvmlDeviceGetMemoryInfo counts it as used. */
#define RESERVED_MIB 480
#define EVENTS (nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError | nvmlEventTypeSingleBitEccError)

struct nvmlDevice_st {
    unsigned int index, minor, lost, device_id, numa, links, xid;
    unsigned long long total_mib, used_mib;
    int major, minor_capability;
    char uuid[64], bus[32], architecture[32], name[64];
};
struct nvmlEventSet_st {
    unsigned int registered[MOST], xid[MOST];
};

static struct nvmlDevice_st gpus[MOST];
static char switches[MOST][32];
static unsigned int count, initialized;

/* Read the hardware into `found`, and the NVSwitches into `buses` unless it is NULL; the number of GPUs. */
static unsigned int read_hardware(struct nvmlDevice_st *found, char (*buses)[32]) {
    char text[8192], *line, *rest = text;
    unsigned int number = 0, next = 0;
    int file = open(HARDWARE, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
    if (file >= 0) close(file);
    if (length < 0) return 0;
    text[length] = 0;
    while ((line = strsep(&rest, "\n")) && number < MOST) {
        struct nvmlDevice_st gpu = {.index = number};
        int fields = sscanf(line, "gpu %u %u %63s %31s %x %d.%d %llu %llu %u %x %u %31s %63[^\n]", &gpu.minor,
                            &gpu.lost, gpu.uuid, gpu.bus, &gpu.device_id, &gpu.major, &gpu.minor_capability,
                            &gpu.total_mib, &gpu.used_mib, &gpu.numa, &gpu.links, &gpu.xid, gpu.architecture,
                            gpu.name);
        if (fields == 14) found[number++] = gpu;
        else if (buses && next < MOST && sscanf(line, "nvswitch %31s", buses[next]) == 1) next++;
    }
    return number;
}

/* What has happened to the GPUs that were found at nvmlInit: one that is gone is lost. Threads call this. */
static void refresh(void) {
    struct nvmlDevice_st now[MOST];
    unsigned int number = read_hardware(now, NULL);
    for (unsigned int i = 0; i < count; i++) {
        unsigned int lost = 1;
        for (unsigned int j = 0; j < number; j++) {
            if (strcmp(now[j].uuid, gpus[i].uuid)) continue;
            lost = now[j].lost;
            gpus[i].xid = now[j].xid;
            gpus[i].links = now[j].links;
            gpus[i].used_mib = now[j].used_mib;
        }
        gpus[i].lost = lost;
    }
}

/* The GPU of a handle, as it is now; what else a function of a device returns in `result`. */
static struct nvmlDevice_st *known(nvmlDevice_t device, nvmlReturn_t *result) {
    struct nvmlDevice_st *gpu = device.handle;
    *result = NVML_SUCCESS;
    if (!initialized) *result = NVML_ERROR_UNINITIALIZED;
    else if (gpu < gpus || gpu >= gpus + count) *result = NVML_ERROR_INVALID_ARGUMENT;
    else {
        refresh();
        if (gpu->lost) *result = NVML_ERROR_GPU_IS_LOST;
    }
    return gpu;
}

#define GPU(device)                                                             \
    nvmlReturn_t result;                                                        \
    struct nvmlDevice_st *gpu __attribute__((unused)) = known(device, &result); \
    if (result != NVML_SUCCESS) return result

static nvmlReturn_t put(char *target, unsigned int size, const char *text) {
    if (strlen(text) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(target, text);
    return NVML_SUCCESS;
}

static nvmlReturn_t check_driver(void) {
    char version[64] = "";
    if (access(KERNEL, F_OK)) return access("/dev/nvidiactl", F_OK) ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_SUCCESS;
    FILE *file = fopen(KERNEL "/module/nvidia/version", "re");
    if (!file) return NVML_ERROR_DRIVER_NOT_LOADED;
    if (fscanf(file, "%63s", version) != 1) version[0] = 0;
    fclose(file);
    return strcmp(version, DRIVER) ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    nvmlReturn_t result = check_driver();
    if (result != NVML_SUCCESS) return result;
    if (!initialized++) count = read_hardware(gpus, switches);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    if (!initialized) return NVML_ERROR_UNINITIALIZED;
    initialized--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) { return put(version, length, DRIVER); }

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    return put(version, length, NVML_API_VERSION_STR "." DRIVER);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    *version = CUDA;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) { return nvmlSystemGetCudaDriverVersion(version); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *found) {
    if (!initialized) return NVML_ERROR_UNINITIALIZED;
    *found = count;
    return NVML_SUCCESS;
}

static nvmlReturn_t hand_out(unsigned int index, nvmlDevice_t *device) {
    device->handle = &gpus[index];
    refresh();
    return gpus[index].lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    if (!initialized) return NVML_ERROR_UNINITIALIZED;
    return index < count ? hand_out(index, device) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    if (!initialized) return NVML_ERROR_UNINITIALIZED;
    for (unsigned int i = 0; i < count; i++)
        if (!strcmp(gpus[i].uuid, uuid)) return hand_out(i, device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device) {
    unsigned int domain, number, slot, one, two, three;
    if (!initialized) return NVML_ERROR_UNINITIALIZED;
    if (sscanf(bus, "%x:%x:%x", &domain, &number, &slot) != 3) return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < count; i++)
        if (sscanf(gpus[i].bus, "%x:%x:%x", &one, &two, &three) == 3 && one == domain && two == number &&
            three == slot)
            return hand_out(i, device);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index) {
    GPU(device);
    *index = gpu->index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    GPU(device);
    *minor = gpu->minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    GPU(device);
    return put(uuid, length, gpu->uuid);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    GPU(device);
    return put(name, length, gpu->name);
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *brand) {
    GPU(device);
    *brand = NVML_BRAND_NVIDIA;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *architecture) {
    GPU(device);
    *architecture = !strcmp(gpu->architecture, "Blackwell") ? NVML_DEVICE_ARCH_BLACKWELL
                    : !strcmp(gpu->architecture, "Hopper")  ? NVML_DEVICE_ARCH_HOPPER
                    : !strcmp(gpu->architecture, "Ampere")  ? NVML_DEVICE_ARCH_AMPERE
                                                            : NVML_DEVICE_ARCH_UNKNOWN;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    GPU(device);
    *major = gpu->major;
    *minor = gpu->minor_capability;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    GPU(device);
    memory->total = gpu->total_mib << 20;
    memory->used = (gpu->used_mib + RESERVED_MIB) << 20;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

static nvmlReturn_t put_bus(nvmlPciInfo_t *pci, const char *bus, unsigned int device_id) {
    memset(pci, 0, sizeof *pci);
    if (sscanf(bus, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) return NVML_ERROR_UNKNOWN;
    /* Device above vendor, which is NVIDIA. */
    pci->pciDeviceId = device_id << 16 | 0x10de;
    pci->pciSubSystemId = 0x16c110de;
    snprintf(pci->busId, sizeof pci->busId, NVML_DEVICE_PCI_BUS_ID_FMT, pci->domain, pci->bus, pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, NVML_DEVICE_PCI_BUS_ID_LEGACY_FMT, pci->domain & 0xffff,
             pci->bus, pci->device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    GPU(device);
    return put_bus(pci, gpu->bus, gpu->device_id);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two, nvmlGpuTopologyLevel_t *level) {
    nvmlReturn_t other;
    struct nvmlDevice_st *second = known(two, &other);
    GPU(one);
    if (other != NVML_SUCCESS) return other;
    if (gpu == second) return NVML_ERROR_NOT_SUPPORTED;
    /* In DGX and HGX systems each GPU has a PCIe switch and a root port of its own. */
    *level = gpu->numa == second->numa ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *state) {
    GPU(device);
    if (!switches[0][0]) return NVML_ERROR_NOT_SUPPORTED;
    if (link >= LINKS) return NVML_ERROR_INVALID_ARGUMENT;
    *state = gpu->links >> link & 1 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci) {
    GPU(device);
    unsigned int most = 0;
    while (most < MOST && switches[most][0]) most++;
    if (!most) return NVML_ERROR_NOT_SUPPORTED;
    return link < LINKS ? put_bus(pci, switches[link % most], 0x22a3) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig) {
    GPU(device);
    *is_mig = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    GPU(device);
    *current = *pending = NVML_DEVICE_MIG_DISABLE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *most) {
    GPU(device);
    *most = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types) {
    GPU(device);
    *types = EVENTS;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    if (!initialized) return NVML_ERROR_UNINITIALIZED;
    set->handle = calloc(1, sizeof *set->handle);
    return set->handle ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    free(set.handle);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set) {
    GPU(device);
    if (types & ~EVENTS) return NVML_ERROR_NOT_SUPPORTED;
    set.handle->registered[gpu - gpus] = (types & nvmlEventTypeXidCriticalError) != 0;
    set.handle->xid[gpu - gpus] = gpu->xid;
    return NVML_SUCCESS;
}

/* An event is a GPU's last Xid that has changed since it was seen last. */
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms) {
    for (unsigned int waited = 0;; waited += POLL_MS) {
        if (!initialized) return NVML_ERROR_UNINITIALIZED;
        refresh();
        for (unsigned int i = 0; i < count; i++) {
            unsigned int xid = gpus[i].xid;
            if (!set.handle->registered[i] || xid == set.handle->xid[i]) continue;
            set.handle->xid[i] = xid;
            if (!xid) continue;
            *data = (nvmlEventData_t){{&gpus[i]}, nvmlEventTypeXidCriticalError, xid, -1u, -1u};
            return NVML_SUCCESS;
        }
        if (waited >= timeout_ms) return NVML_ERROR_TIMEOUT;
        nanosleep(&(struct timespec){0, POLL_MS * 1000000L}, NULL);
    }
}
