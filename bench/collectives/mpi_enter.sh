#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What mpirun calls in place of ssh, with a host and a command: the hosts are network namespaces.
namespace=$1
shift
exec ip netns exec "$namespace" sh -c "$*"
