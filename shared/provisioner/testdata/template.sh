echo from testdata
