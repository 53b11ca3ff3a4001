#!/bin/bash
# Placeholder: this control plane is set up from outside.
