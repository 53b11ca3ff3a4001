package s3

import "net/http"

// operationOf names a request's operation, and gives the bucket setting that
// it is about, if any.
func operationOf(r *http.Request, t target) (string, *setting) {
	query := r.URL.Query()
	switch {
	case t.bucket == "":
		return "ListBuckets", nil
	case t.key != "":
		return objectOperation(r, query.Has), nil
	}
	for i := range settings {
		if s := &settings[i]; query.Has(s.query) {
			return s.operation(r.Method), s
		}
	}
	switch {
	case query.Has("versioning"):
		return verb(r.Method) + "BucketVersioning", nil
	case query.Has("versions"):
		return "ListObjectVersions", nil
	case query.Has("uploads"):
		return "ListMultipartUploads", nil
	case query.Has("delete"):
		return "DeleteObjects", nil
	}
	for _, name := range []string{"analytics", "intelligent-tiering", "inventory", "metrics", "session", "metadataTable"} {
		if query.Has(name) {
			return verb(r.Method) + "Bucket?" + name, nil
		}
	}
	switch r.Method {
	case http.MethodPut:
		return "CreateBucket", nil
	case http.MethodDelete:
		return "DeleteBucket", nil
	case http.MethodHead:
		return "HeadBucket", nil
	case http.MethodPost:
		return "PostObject", nil
	}
	if query.Get("list-type") == "2" {
		return "ListObjectsV2", nil
	}
	return "ListObjects", nil
}

func objectOperation(r *http.Request, has func(string) bool) string {
	for _, name := range []string{"tagging", "acl", "retention", "legal-hold", "attributes", "torrent", "restore", "select"} {
		if has(name) {
			return verb(r.Method) + "Object?" + name
		}
	}
	switch {
	case has("uploads"):
		return "CreateMultipartUpload"
	case has("uploadId") && r.Method == http.MethodPut:
		if r.Header.Get("X-Amz-Copy-Source") != "" {
			return "UploadPartCopy"
		}
		return "UploadPart"
	case has("uploadId") && r.Method == http.MethodPost:
		return "CompleteMultipartUpload"
	case has("uploadId") && r.Method == http.MethodDelete:
		return "AbortMultipartUpload"
	case has("uploadId"):
		return "ListParts"
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		return "CopyObject"
	}
	return verb(r.Method) + "Object"
}

func verb(method string) string {
	switch method {
	case http.MethodPut:
		return "Put"
	case http.MethodDelete:
		return "Delete"
	case http.MethodHead:
		return "Head"
	case http.MethodPost:
		return "Post"
	}
	return "Get"
}
