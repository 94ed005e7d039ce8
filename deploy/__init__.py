"""Files for operators: image, monitoring, Kubernetes and Ray."""
