package eks

import (
	"fmt"
	"maps"
	"slices"
)

type podIdentity struct {
	ClusterName        string            `json:"clusterName"`
	Namespace          string            `json:"namespace"`
	ServiceAccount     string            `json:"serviceAccount"`
	RoleARN            string            `json:"roleArn"`
	ARN                string            `json:"associationArn"`
	ID                 string            `json:"associationId"`
	Tags               map[string]string `json:"tags"`
	CreatedAt          timestamp         `json:"createdAt"`
	ModifiedAt         timestamp         `json:"modifiedAt"`
	OwnerARN           string            `json:"ownerArn,omitempty"`
	DisableSessionTags *bool             `json:"disableSessionTags,omitempty"`
	TargetRoleARN      string            `json:"targetRoleArn,omitempty"`
}

// addPodIdentity completes and adds one. The caller holds the lock.
func (s *Service) addPodIdentity(cl *cluster, p podIdentity) *podIdentity {
	now := timestamp(s.cfg.Now())
	s.lastID++
	p.ID = fmt.Sprintf("a-%016x", s.lastID)
	p.ARN = s.arn(cl.region, "podidentityassociation/"+cl.view.Name+"/"+p.ID)
	p.ClusterName, p.CreatedAt, p.ModifiedAt, p.Tags = cl.view.Name, now, now, orEmpty(p.Tags)
	cl.identities[p.ID] = &p
	return &p
}

func (s *Service) createPodIdentity(c call, in podIdentity) (any, error) {
	if in.Namespace == "" || in.ServiceAccount == "" {
		return nil, invalidParameter("namespace and serviceAccount are required")
	}
	if err := s.checkRole(c.Context(), in.RoleARN, "pods.eks.amazonaws.com"); err != nil {
		return nil, err
	}
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	for _, other := range cl.identities {
		if other.Namespace == in.Namespace && other.ServiceAccount == in.ServiceAccount {
			return nil, inUse("Association already exists: %s", other.ID)
		}
	}
	in.OwnerARN = ""
	return map[string]any{"association": *s.addPodIdentity(cl, in)}, nil
}

func (s *Service) openPodIdentity(c call) (*cluster, *podIdentity, func(), error) {
	cl, unlock, err := s.open(c)
	if err != nil {
		return nil, nil, unlock, err
	}
	p := cl.identities[c.PathValue("association")]
	if p == nil {
		return nil, nil, unlock, notFound("No association found for id: %s", c.PathValue("association"))
	}
	return cl, p, unlock, nil
}

func (s *Service) describePodIdentity(c call, _ none) (any, error) {
	_, p, unlock, err := s.openPodIdentity(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	return map[string]any{"association": *p}, nil
}

func (s *Service) listPodIdentities(c call, _ none) (any, error) {
	cl, unlock, err := s.open(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	query := c.URL.Query()
	out := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(cl.identities)) {
		p := cl.identities[id]
		if ns := query.Get("namespace"); ns != "" && ns != p.Namespace {
			continue
		}
		if account := query.Get("serviceAccount"); account != "" && account != p.ServiceAccount {
			continue
		}
		out = append(out, map[string]any{
			"clusterName": p.ClusterName, "namespace": p.Namespace, "serviceAccount": p.ServiceAccount,
			"associationArn": p.ARN, "associationId": p.ID, "ownerArn": p.OwnerARN,
		})
	}
	return map[string]any{"associations": out}, nil
}

func (s *Service) updatePodIdentity(c call, in podIdentity) (any, error) {
	_, p, unlock, err := s.openPodIdentity(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	if in.RoleARN != "" {
		p.RoleARN = in.RoleARN
	}
	if in.DisableSessionTags != nil {
		p.DisableSessionTags = in.DisableSessionTags
	}
	if in.TargetRoleARN != "" {
		p.TargetRoleARN = in.TargetRoleARN
	}
	p.ModifiedAt = timestamp(s.cfg.Now())
	return map[string]any{"association": *p}, nil
}

func (s *Service) deletePodIdentity(c call, _ none) (any, error) {
	cl, p, unlock, err := s.openPodIdentity(c)
	defer unlock()
	if err != nil {
		return nil, err
	}
	delete(cl.identities, p.ID)
	return map[string]any{"association": *p}, nil
}
