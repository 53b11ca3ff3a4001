module github.com/twinj/uuid

go 1.26.0
