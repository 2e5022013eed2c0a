/* Faults of a device, and what they mean for the user. A fault is sticky, as CUDA's own are: after one the
 * process has to go. The runtime's few words say what happened; the advice says what can be done.
 */
#include "gpu/cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

void mt_cuda_fail(struct mt_cuda_device *device, int code, const char *format, ...)
{
    int none = 0;
    if (!__atomic_compare_exchange_n(&device->faulted, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(device->fault, sizeof device->fault, format, arguments);
    va_end(arguments);
    device->fault_code = code;
    __atomic_store_n(&device->faulted, 2, __ATOMIC_RELEASE);
}

/* kind in the highest byte, then 24 bits of the index, then the value. */
static void take_over(struct mt_cuda_device *device, unsigned long long word)
{
    const unsigned index = (unsigned)(word >> 32) & 0xffffffu;
    const int value = static_cast<int>(static_cast<unsigned>(word));
    switch (static_cast<enum mt_cuda_fault_kind>(word >> 56)) {
    case MT_CUDA_FAULT_TOKEN:
        mt_cuda_fail(
            device, -EIO,
            "embedding: token %u has the id %d, which is not in the vocabulary; the tokenizer and the "
            "model do not fit together",
            index, value);
        return;
    case MT_CUDA_FAULT_POSITION:
        mt_cuda_fail(device, -EIO, "rope: token %u has the position %d, but the table of angles ends before",
                     index, value);
        return;
    case MT_CUDA_FAULT_LABEL:
        mt_cuda_fail(device, -EIO,
                     "cross_entropy: row %u has the label %d, which is neither in the vocabulary nor %d "
                     "(ignored)",
                     index, value, MT_LABEL_IGNORED);
        return;
    }
    mt_cuda_fail(device, -EIO, "a kernel reported a fault that is not known (%llx)", word);
}

bool mt_cuda_failed(struct mt_cuda_device *device)
{
    if (__atomic_load_n(&device->faulted, __ATOMIC_RELAXED))
        return true;
    const unsigned long long word =
        device->fault_word ? __atomic_load_n(device->fault_word, __ATOMIC_RELAXED) : 0;
    if (!word)
        return false;
    take_over(device, word);
    return true;
}

const char *mt_cuda_last_error(struct mt_device *base)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    mt_cuda_failed(device);
    int faulted;
    while ((faulted = __atomic_load_n(&device->faulted, __ATOMIC_ACQUIRE)) == 1)
        continue; /* another thread is writing the sentence */
    return faulted ? device->fault : "";
}

int mt_cuda_fault_code(struct mt_cuda_device *device)
{
    mt_cuda_last_error(&device->base); /* whole from here on */
    return device->fault_code;
}

static enum mt_reason reason_of(int code)
{
    return code == -ENOMEM ? MT_REASON_OUT_OF_MEMORY : MT_REASON_DEVICE;
}

int mt_cuda_report(struct mt_cuda_device *device, struct mt_error *error)
{
    const int code = mt_cuda_fault_code(device);
    return mt_cuda_error(error, code, reason_of(code), "%s", device->fault);
}

/* The driver maps all memory of host and GPU, and more, into a process's addresses. */
static const char *memory_advice(void)
{
    struct rlimit limit = {};
    getrlimit(RLIMIT_AS, &limit);
    return limit.rlim_cur == RLIM_INFINITY
               ? "the GPU's memory is full: end other programs that use it (nvidia-smi lists them), or lower "
                 "memory.device_limit or training.micro_batch_size"
               : "the GPU's memory is full (nvidia-smi lists who uses it), or the limit on this process's "
                 "addresses is too low for the driver (ulimit -v, LimitAS in a systemd unit): lift it";
}

const char *mt_cuda_advice(cudaError_t result)
{
    switch (result) {
    case cudaErrorNoDevice:
        return "no GPU is visible: look at nvidia-smi, CUDA_VISIBLE_DEVICES and, in a container, whether it "
               "was "
               "started with access to the GPU";
    case cudaErrorInsufficientDriver:
        return "the NVIDIA driver is missing or older than this build needs: install a driver for CUDA 13 "
               "(580 "
               "or later), or build with the toolkit that fits your driver";
    case cudaErrorStubLibrary:
        return "the toolkit's stub stands in the driver's place: take the folder lib64/stubs out of "
               "LD_LIBRARY_PATH";
    case cudaErrorSystemDriverMismatch:
        return "the driver's kernel module and its libraries have different versions: restart the machine, "
               "or "
               "reload the nvidia module";
    case cudaErrorInitializationError:
    case cudaErrorOperatingSystem:
    case cudaErrorUnknown:
        return "the driver does not start: dmesg may say why; see that /dev/nvidia0 and /dev/nvidia-uvm are "
               "there and "
               "may be opened (nvidia-modprobe -u makes the latter), or restart the machine";
    case cudaErrorCompatNotSupportedOnDevice:
        return "the libraries for newer CUDA on an older driver (cuda-compat) do not know this GPU: install "
               "a driver "
               "for CUDA 13 (580 or later), and take theirs out of LD_LIBRARY_PATH";
    case cudaErrorSystemNotReady:
        return "the system is not ready: on machines with NVSwitch the service nvidia-fabricmanager must run";
    case cudaErrorDevicesUnavailable:
        return "the GPU is in exclusive use by another program: end that one, or run nvidia-smi -c DEFAULT";
    case cudaErrorMemoryAllocation:
        return memory_advice();
    case cudaErrorECCUncorrectable:
        return "the GPU's memory has an uncorrectable error: restart the machine; if it comes back "
               "(nvidia-smi "
               "-q -d ECC), the card is failing";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
        return "this build has no code for this GPU: build with CUDA_ARCHS set to its compute capability, or "
               "make gpu-all";
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
        return "this build has no code for this GPU but PTX, which this driver cannot compile: build with "
               "CUDA_ARCHS set to the GPU's compute capability, or install a newer driver, whole "
               "(libnvidia-ptxjitcompiler belongs to it)";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
        return "a kernel went wrong: that is a fault of MegaTrain, or of the card; the job can be resumed "
               "from "
               "its last checkpoint. compute-sanitizer names the kernel; please report it";
    case cudaErrorLaunchTimeout:
        return "a kernel ran longer than the display's watchdog allows: use a GPU without a display, or "
               "smaller "
               "micro-batches";
    case cudaErrorLaunchFailure:
    case cudaErrorContained:
        return "the GPU failed while it computed (dmesg shows an Xid line that says more); the job can be "
               "resumed from its last checkpoint";
    default:
        return "";
    }
}

int mt_cuda_check(struct mt_cuda_device *device, cudaError_t result, const char *doing)
{
    if (result == cudaSuccess)
        return 0;
    cudaGetLastError(); /* told here: the next launch must not find it */
    const char *advice = mt_cuda_advice(result);
    const int code = result == cudaErrorMemoryAllocation ? -ENOMEM : -EIO;
    mt_cuda_fail(device, code, "cuda:%d: %s failed: %s (%s)%s%s", device->index, doing,
                 cudaGetErrorString(result), cudaGetErrorName(result), *advice ? "; " : "", advice);
    return code;
}

int mt_cuda_made(struct mt_cuda_device *device, cudaError_t result, const char *doing, struct mt_error *error)
{
    if (result == cudaSuccess)
        return 0;
    if (result != cudaErrorMemoryAllocation) {
        mt_cuda_check(device, result, doing);
        return mt_cuda_report(device, error);
    }
    cudaGetLastError();
    return mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "cuda:%d: %s failed: %s (%s); %s",
                         device->index, doing, cudaGetErrorString(result), cudaGetErrorName(result),
                         memory_advice());
}

int mt_cuda_check_blas(struct mt_cuda_device *device, cublasStatus_t status, const char *doing)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    const char *advice = "";
    int code = -EIO;
    if (status == CUBLAS_STATUS_ALLOC_FAILED || status == CUBLAS_STATUS_NOT_INITIALIZED) {
        /* The latter is what opening cuBLAS answers where there is no memory. */
        code = -ENOMEM;
        advice = "; cuBLAS found no memory for itself: lower memory.device_limit, or end other programs on "
                 "the GPU";
    } else if (status == CUBLAS_STATUS_ARCH_MISMATCH || status == CUBLAS_STATUS_NOT_SUPPORTED)
        advice = "; this cuBLAS does not know the GPU or the product: install the cuBLAS of a newer toolkit";
    else if (status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR)
        advice =
            "; dmesg may show an Xid line that says more; the job can be resumed from its last checkpoint";
    mt_cuda_fail(device, code, "cuda:%d: %s failed in cuBLAS: %s%s", device->index, doing,
                 cublasGetStatusString(status), advice);
    return code;
}
