"""The images of nodes, by the names under which AWS publishes the newest one."""

EKS_IMAGE = "AL2023_x86_64_STANDARD"
EKS_GPU_IMAGE = "AL2023_x86_64_NVIDIA"
"""AMI types of EKS: Amazon Linux 2023, and the same with NVIDIA's driver (EKS API reference, Nodegroup)."""

UBUNTU_GPU_IMAGE = (
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
)
"""Public SSM parameter: AWS's Deep Learning Base image with open NVIDIA modules, EFA and Ubuntu 22.04."""
