(* Page 24: Five theorems, one matrix (Theorem 24.4).
   R is any ordered field; exp is any function with the laws of the real one that are listed where
   they are used. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities five_theorems_one_matrix.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Theorem 24.4 (Logits against collapse) ---- *)
Section Contraction.
(* Tokens in a space V with a norm (or seminorm) len. *)
Variables (R : realFieldType) (n : nat) (V : lmodType R) (len : V -> R).
Hypothesis lenD : forall u v, len (u + v) <= len u + len v.
Hypothesis lenZ : forall a u, len (a *: u) = `|a| * len u.
Definition mix (P : 'M[R]_n) (x : 'I_n -> V) i := \sum_k P i k *: x k.      (* P X *)
(* D is the diameter of the tokens x. *)
Definition is_diam (x : 'I_n -> V) D := (forall i j, len (x i - x j) <= D) /\
  exists i j, len (x i - x j) = D.

Lemma len0 : len 0 = 0. Proof. by rewrite -(scale0r 0) lenZ normr0 mul0r. Qed.
Lemma len_sum (I : finType) (a : I -> R) (x : I -> V) D : (forall i, 0 <= a i) ->
  (forall i, len (x i) <= D) -> len (\sum_i a i *: x i) <= (\sum_i a i) * D.
Proof.
move=> a0 xD; rewrite mulr_suml; elim/big_ind2: _ => [||i _].
- by rewrite len0.
- by move=> u r v s ur vs; apply: le_trans (lenD _ _) (ler_add ur vs).
by rewrite lenZ ger0_norm // ler_wpmul2l.
Qed.

(* The positive part mu and the negative part nu of row i minus row j; both add up to tv. *)
Definition mu (P : 'M[R]_n) i j k := Num.max (P i k - P j k) 0.
Definition nu (P : 'M[R]_n) i j k := mu P i j k - (P i k - P j k).
Lemma parts P i j : stochastic P -> [/\ forall k, 0 <= mu P i j k, forall k, 0 <= nu P i j k,
  \sum_k mu P i j k = tv P i j & \sum_k nu P i j k = tv P i j].
Proof.
move=> [_ P1]; have mu0 k : 0 <= mu P i j k by rewrite le_maxr lexx orbT.
have nu0 k : 0 <= nu P i j k by rewrite subr_ge0 le_maxr lexx.
have abs k : `|P i k - P j k| = mu P i j k + nu P i j k.
  rewrite /nu /mu; case: (leP (P i k - P j k) 0) => pq; last by rewrite gtr0_norm // subrr addr0.
  by rewrite ler0_norm // !add0r.
have same : \sum_k nu P i j k = \sum_k mu P i j k by rewrite !sumrB !P1 subrr subr0.
suff e : \sum_k mu P i j k = tv P i j by split; rewrite ?same.
rewrite /tv [in RHS](eq_bigr (fun k => mu P i j k + nu P i j k)) => [|k _]; last exact: abs.
rewrite big_split /= same; set S := \sum_k mu P i j k.
by have -> : 2%:R^-1 * (S + S) = 2%:R^-1 * 2%:R * S; [ident|rewrite mulVf ?pnatr_eq0 // mul1r].
Qed.

Lemma contraction_rows P x D i j : stochastic P -> 0 <= D ->
  (forall k l, len (x k - x l) <= D) -> len (mix P x i - mix P x j) <= tv P i j * D.
Proof.
move=> st D_ge0 diam; have [m0 n0 mS nS] := parts i j st.
set T := tv P i j in mS nS *; have T0 : 0 <= T by rewrite -mS sumr_ge0.
have diff : mix P x i - mix P x j = \sum_k mu P i j k *: x k - \sum_k nu P i j k *: x k.
  by rewrite -!sumrB; apply: eq_bigr => k _; rewrite -!scalerBl /nu subKr.
have [z|T_neq0] := eqVneq T 0.
  have mz k : mu P i j k = 0 by apply/eqP; move: mS; rewrite z => /psumr_eq0P -> //.
  have nz k : nu P i j k = 0 by apply/eqP; move: nS; rewrite z => /psumr_eq0P -> //.
  rewrite diff z mul0r !big1 ?subrr ?len0 // => k _; by rewrite ?mz ?nz scale0r.
have Tp : 0 < T by rewrite lt_neqAle eq_sym T_neq0.
(* T times the difference is the sum of mu_k nu_l (x_k - x_l). *)
rewrite -(ler_pmul2l Tp) -[X in X * len _](ger0_norm T0) -lenZ diff.
have -> : T *: (\sum_k mu P i j k *: x k - \sum_k nu P i j k *: x k) =
    \sum_(kl : 'I_n * 'I_n) (mu P i j kl.1 * nu P i j kl.2) *: (x kl.1 - x kl.2).
  rewrite -(pair_bigA _ (fun k l => (mu P i j k * nu P i j l) *: (x k - x l))) /=.
  rewrite scalerBr -{1}nS -mS !scaler_sumr.
  under [RHS]eq_bigr => k _ do (under eq_bigr do rewrite scalerBr;
    rewrite sumrB -scaler_suml -mulr_sumr).
  rewrite [RHS]sumrB; congr (_ - _); first by apply: eq_bigr => k _; rewrite scalerA mulrC.
  by rewrite exchange_big; apply: eq_bigr => k _; rewrite -scaler_suml -mulr_suml scalerA.
have -> : T * (T * D) = (\sum_(kl : 'I_n * 'I_n) mu P i j kl.1 * nu P i j kl.2) * D.
  rewrite mulrA; congr (_ * _); rewrite -(pair_bigA _ (fun k l => mu P i j k * nu P i j l)) /=.
  by under eq_bigr do rewrite -mulr_sumr nS; rewrite -mulr_suml mS.
by apply: (len_sum (a := fun kl => _ * _)) => kl; [rewrite mulr_ge0|apply: diam].
Qed.

Lemma len_ge0 u : 0 <= len u.
Proof.
have : len (u - u) <= len u + len u.
  by apply: le_trans (lenD _ _) _; rewrite -scaleN1r lenZ normrN1 mul1r.
by rewrite subrr len0 -mulr2n pmulrn_lge0.
Qed.

(* (a): diam(P X) <= tau(P) diam(X). *)
Theorem contraction P t x D D' : stochastic P -> is_tau P t -> is_diam x D ->
  is_diam (mix P x) D' -> D' <= t * D.
Proof.
move=> st [tau _] [diam [i0 [j0 D0]]] [_ [i [j <-]]].
have D_ge0 : 0 <= D by rewrite -D0 len_ge0.
apply: le_trans (ler_wpmul2r D_ge0 (tau i j)); exact: contraction_rows.
Qed.

(* Attained by tokens that differ: x_k = u where mu > 0, for the two rows with tv = tau, and else 0;
   if tau = 0, where all rows are equal, by any. *)
Theorem contraction_attained P t (u : V) : (1 < n)%N -> 0 < len u ->
  stochastic P -> is_tau P t ->
  exists x D, [/\ 0 < D, is_diam x D & is_diam (mix P x) (t * D)].
Proof.
move=> n1 up st tau; have [le [i [j e]]] := tau; have [m0 n0 mS nS] := parts i j st.
have [t0|t0] := eqVneq t 0.
  pose a := Ordinal (ltnW n1); pose b := Ordinal n1.
  have ab : (b == a) = false by apply/negbTE/eqP => /(congr1 val).
  pose x (k : 'I_n) : V := if k == a then u else 0; exists x, (len u); rewrite t0 mul0r.
  have alike k l c : P k c = P l c.
    have : tv P k l <= 0 by rewrite -t0.
    rewrite /tv pmulr_rle0 ?invr_gt0 ?ltr0n // => S0; apply/eqP; rewrite -subr_eq0 -normr_le0.
    by apply: le_trans S0; rewrite (bigD1 c) //= ler_addl sumr_ge0.
  have mixE k l : mix P x k = mix P x l by apply: eq_bigr => c _; rewrite (alike k l).
  split=> //; split=> [k l|].
  - rewrite /x; case: (k == a); case: (l == a); rewrite ?subrr ?len0 ?subr0 ?sub0r ?(ltW up) //.
    by rewrite -scaleN1r lenZ normrN1 mul1r.
  - by exists a, b; rewrite /x eqxx ab subr0.
  - by rewrite (mixE k l) subrr len0.
  by exists a, b; rewrite (mixE a b) subrr len0.
(* Some k lies where mu > 0, some other where nu > 0. *)
have tp : 0 < t by rewrite lt_neqAle eq_sym t0 -e -mS sumr_ge0.
pose c k : R := if 0 < mu P i j k then 1 else 0; pose x k := c k *: u.
have lu := len_ge0 u.
have mixE k : mix P x k = (\sum_l P k l * c l) *: u.
  by rewrite scaler_suml; apply: eq_bigr => l _; rewrite scalerA.
have some (w : 'I_n -> R) : (forall k, 0 <= w k) -> \sum_k w k = t -> exists k, 0 < w k.
  move=> w0 wS; apply/existsP; apply: contraT => /existsPn no.
  case/eqP: t0; rewrite -wS big1 // => k _.
  by apply/eqP; rewrite eq_le w0 andbT leNgt; apply: no.
have [k kp] := some _ m0 (etrans mS e); have [l lp] := some _ n0 (etrans nS e).
have ck : c k = 1 by rewrite /c kp.
have cl : c l = 0.
  rewrite /c; move: lp; rewrite /nu /mu; case: (leP (P i l - P j l) 0) => _; first by rewrite ltxx.
  by rewrite subrr ltxx.
have row : \sum_l P i l * c l - \sum_l P j l * c l = t.
  rewrite -sumrB -e -mS; apply: eq_bigr => a _; rewrite -mulrBl /c.
  case: ifP => [|/negbT].
    by rewrite mulr1 /mu; case: (leP (P i a - P j a) 0); rewrite ?ltxx.
  by rewrite -leNgt mulr0 => le0; apply/eqP; rewrite eq_sym eq_le le0 m0.
have c01 a : 0 <= c a <= 1 by rewrite /c; case: (0 < _); rewrite ?lexx ?ler01.
have cc a b : `|c a - c b| <= 1.
  have /andP[a0 a1] := c01 a; have /andP[b0 b1] := c01 b; rewrite ler_norml.
  apply/andP; split; first by rewrite ler_subr_addl (le_trans _ a0) // subr_le0.
  by rewrite ler_subl_addl (le_trans a1) // ler_addr.
have dx : is_diam x (len u).
  split=> [a b|]; last by exists k, l; rewrite /x ck cl scale1r scale0r subr0.
  by rewrite /x -scalerBl lenZ ler_pimull.
exists x, (len u); split=> //; split=> [a b|]; last first.
  by exists i, j; rewrite !mixE -scalerBl row lenZ gtr0_norm.
by apply: le_trans (ler_wpmul2r lu (le a b)); apply: contraction_rows => // ? ?; apply: dx.1.
Qed.
End Contraction.

(* Theorem 24.4 (b). *)
Section Radius.
Variables (R : realFieldType) (exp : R -> R).
Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Hypothesis exp_lt : forall x y, x < y -> exp x < exp y.
Definition sinh x := (exp x - exp (- x)) / 2%:R.
Definition cosh x := (exp x + exp (- x)) / 2%:R.
Variables (n : nat) (r : R).
Hypothesis n2 : (1 < n)%N.
Definition k := n./2.
Definition c_n : R := 2%:R^-1 * (k%:R / (n - k)%:R + (n - k)%:R / k%:R).
(* The attention matrix of logits l. *)
Definition attention (l : 'I_n -> 'I_n -> R) := \matrix_(i, j) softmax exp (l i) j.
Let U := exp (2%:R * r).
Let den s := s * (U - 1) ^+ 2 + n%:R ^+ 2 * U.
Let G s := s * (U ^+ 2 - 1) / den s.
Let S : R := k%:R * (n - k)%:R.

Lemma kn : (k <= n)%N. Proof. by rewrite /k -{2}(odd_double_half n) -addnn addnA leq_addl. Qed.
Lemma den_gt0 s : 0 <= s -> 0 < den s.
Proof.
move=> s0; rewrite /den; apply: ltr_paddl; first by rewrite mulr_ge0 ?sqr_ge0.
by apply: mulr_gt0; [apply: exprn_gt0; rewrite ltr0n ltnW|apply: exp_gt0].
Qed.

(* Weight on A: at most a U / (a U + b), at least a / (a + b U), a = |A|, b = n - a. *)
Lemma weight (l : 'I_n -> R) (A : {set 'I_n}) (p := \sum_(i in A) softmax exp l i)
  (a := #|A|%:R : R) (b := #|~: A|%:R : R) : radius l r ->
  p * (a * U + b) <= a * U /\ a <= p * (a + b * U).
Proof.
move=> rad.
have cross (B : {set 'I_n}) : #|~: B|%:R * (\sum_(i in B) exp (l i)) <=
    #|B|%:R * U * \sum_(j in ~: B) exp (l j).
  have -> : #|~: B|%:R * (\sum_(i in B) exp (l i)) = \sum_(i in B) \sum_(j in ~: B) exp (l i).
    by rewrite mulr_sumr; apply: eq_bigr => i _; rewrite sumr_const mulr_natl.
  have -> : #|B|%:R * U * (\sum_(j in ~: B) exp (l j)) =
      \sum_(i in B) \sum_(j in ~: B) U * exp (l j).
    by rewrite sumr_const -mulr_sumr -mulrA mulr_natl.
  apply: ler_sum => i _; apply: ler_sum => j _; rewrite /U -expD.
  by apply: (exp_le exp_lt); rewrite -ler_subl_addr rad.
pose SA := \sum_(i in A) exp (l i); pose SB := \sum_(j in ~: A) exp (l j).
have Zs : \sum_j exp (l j) = SA + SB.
  rewrite (bigID (mem A)) /=; congr (_ + _); apply: eq_bigl => i; by rewrite inE.
have Z0 : 0 < SA + SB.
  rewrite -Zs (bigD1 (Ordinal n2)) //= ltr_paddr // sumr_ge0 // => i _; apply: ltW => //.
have pE : p = SA / (SA + SB) by rewrite /p /softmax -mulr_suml Zs.
have up := cross A; have := cross (~: A); rewrite setCK -/SA -/SB => lo.
rewrite -/SA -/SB -/a -/b in up lo.
rewrite pE; split.
  by rewrite mulrAC ler_pdivr_mulr // -subr_ge0; rewrite -subr_ge0 in up; move: up;
    congr (is_true (0 <= _)); ident.
by rewrite mulrAC ler_pdivl_mulr // -subr_ge0; rewrite -subr_ge0 in lo; move: lo;
  congr (is_true (0 <= _)); ident.
Qed.

Lemma attention_stochastic l : stochastic (attention l).
Proof.
have Z0 i : 0 < \sum_j exp (l i j).
  by rewrite (bigD1 (Ordinal n2)) //= ltr_paddr // sumr_ge0 // => j _; apply: ltW.
split=> [i j|i]; first by rewrite mxE divr_ge0 // ltW.
under eq_bigr do rewrite mxE; by rewrite -mulr_suml mulfV // gt_eqF.
Qed.

Lemma exp0 : exp 0 = 1.
Proof. by apply: (mulIf (lt0r_neq0 (exp_gt0 0))); rewrite -expD mul1r addr0. Qed.
Lemma U_ge1 (l : 'I_n -> R) : radius l r -> 1 <= U.
Proof.
move=> rad; rewrite -exp0; apply: (exp_le exp_lt).
by have := rad (Ordinal n2) (Ordinal n2); rewrite subrr.
Qed.

(* a (n - a) is largest for a = k. *)
Lemma S_max a b : (a + b = n)%N -> a%:R * b%:R <= S.
Proof.
move=> ab; rewrite /S natrB ?kn // -subr_ge0.
have kk : (k + k <= n)%N by rewrite addnn -[X in (_ <= X)%N]odd_double_half leq_addl.
have kk1 : (n <= k + k + 1)%N.
  by rewrite addnn -[X in (X <= _)%N]odd_double_half addnC leq_add2l; case: (odd n).
have -> : k%:R * (n%:R - k%:R) - a%:R * b%:R = (k%:R - a%:R) * (b%:R - k%:R) :> R.
  by rewrite -ab natrD; ident.
have [ak|ka] := leqP a k.
  rewrite mulr_ge0 ?subr_ge0 ?ler_nat // -(leq_add2l a) ab (leq_trans _ kk) // leq_add2r //.
rewrite mulr_le0 ?subr_le0 ?ler_nat ?(ltnW ka) // -(leq_add2l a) ab (leq_trans kk1) //.
by rewrite addnAC leq_add2r addn1.
Qed.

Lemma boundE : sinh (2%:R * r) / (cosh (2%:R * r) + c_n) = G S.
Proof.
have k0 : (0 < k)%N by rewrite /k half_gt0.
have b0 : (0 < n - k)%N.
  by rewrite subn_gt0 /k -{2}(odd_double_half n) -addnn addnA -[X in (X < _)%N]add0n ltn_add2r
    addn_gt0 k0 orbT.
have nE : n%:R = k%:R + (n - k)%:R :> R by rewrite -natrD subnKC ?kn.
rewrite /sinh /cosh /G /den /S /c_n nE -/U; set V := exp (- _).
have UV : U * V = 1.
  rewrite /U /V -expD subrr; apply: (mulIf (lt0r_neq0 (exp_gt0 0))); by rewrite -expD mul1r addr0.
have [U0 V0] : 0 < U /\ 0 < V by split; apply: exp_gt0.
have K0 : 0 < k%:R :> R by rewrite ltr0n.
have L0 : 0 < (n - k)%:R :> R by rewrite ltr0n.
move: (k%:R) ((n - k)%:R) K0 L0 => K L K0 L0.
have KK : K * K^-1 = 1 by rewrite mulfV // gt_eqF.
have LL : L * L^-1 = 1 by rewrite mulfV // gt_eqF.
have h2 : 2%:R * 2%:R^-1 = 1 :> R by rewrite mulfV ?pnatr_eq0.
apply/eqP; rewrite eqr_div; last 2 first.
- rewrite gt_eqF // !(addr_gt0, mulr_gt0, divr_gt0) ?invr_gt0 ?ltr0n //.
- rewrite gt_eqF //; apply: ltr_paddl.
    by apply: mulr_ge0; [apply: mulr_ge0; apply: ltW|apply: sqr_ge0].
  by apply: mulr_gt0 => //; apply: exprn_gt0; apply: addr_gt0.
apply/eqP; have -> : U ^+ 2 - 1 = (U - V) * U by rewrite mulrBl [V * U]mulrC UV.
transitivity ((U - V) * 2%:R^-1 * (K * L * (U * U + 1) + (K * K + L * L) * U)).
  by ident.
transitivity ((U - V) * 2%:R^-1 * (K * L * (U * U + U * V) + (K * K + L * L) * U)).
  by rewrite UV.
transitivity ((U - V) * 2%:R^-1 * U * (K * L * (U + V) +
  (K * K * (L * L^-1) + L * L * (K * K^-1)))).
  by rewrite KK LL; ident.
by ident.
Qed.

(* tau(P) is at most the first bound. *)
Theorem radius_bound l t : (forall i, radius (l i) r) -> is_tau (attention l) t ->
  t <= sinh (2%:R * r) / (cosh (2%:R * r) + c_n).
Proof.
move=> rad [_ [i [j <-]]]; rewrite boundE; have st := attention_stochastic l.
have [_ _ mS _] := parts i j st; set P := attention l in mS st *.
pose A := [set m | P j m < P i m].
have tvE : tv P i j = \sum_(m in A) softmax exp (l i) m - \sum_(m in A) softmax exp (l j) m.
  rewrite -mS -sumrB [RHS]big_mkcond; apply: eq_bigr => m _; rewrite inE /mu -subr_gt0.
  by rewrite !mxE; case: (leP (_ - _) 0).
have [up _] := weight A (rad i); have [_ lo] := weight A (rad j).
have U1 := U_ge1 (rad i); have U0 : 0 < U := exp_gt0 _.
have cA : (#|A| + #|~: A| = n)%N by rewrite cardsC card_ord.
have sS := S_max cA; have nE : n%:R = #|A|%:R + #|~: A|%:R :> R by rewrite -natrD cA.
have s0 : 0 <= #|A|%:R * #|~: A|%:R :> R by rewrite mulr_ge0 ?ler0n.
rewrite tvE; move: (\sum_(m in A) _) (\sum_(m in A) _) up lo => q p up lo.
have Sge0 : 0 <= S by apply: le_trans sS.
rewrite /G ler_pdivl_mulr ?den_gt0 //.
(* tv den(s) <= s (U^2 - 1) for s = a b, and s <= S. *)
have den_ab : den (#|A|%:R * #|~: A|%:R) = (#|A|%:R * U + #|~: A|%:R) * (#|A|%:R + #|~: A|%:R * U).
  by rewrite /den nE; ident.
move: (#|A|%:R) (#|~: A|%:R) sS s0 nE up lo den_ab (ler0n R #|A|) (ler0n R #|~: A|) => a b sS s0 nE.
move=> up lo den_ab a0 b0; have d0 := den_gt0 s0.
have key : (p - q) * den (a * b) <= a * b * (U ^+ 2 - 1).
  rewrite den_ab.
  have H1 := ler_wpmul2r (_ : 0 <= a + b * U) up; have H2 := ler_wpmul2r (_ : 0 <= a * U + b) lo.
  have {}H1 := H1 (addr_ge0 a0 (mulr_ge0 b0 (ltW U0))).
  have {}H2 := H2 (addr_ge0 (mulr_ge0 a0 (ltW U0)) b0).
  have := ler_add H1 H2; rewrite -subr_ge0 => H; rewrite -subr_ge0; move: H.
  by congr (is_true (0 <= _)); ident.
have u2 : 0 <= U ^+ 2 - 1.
  have -> : U ^+ 2 - 1 = (U - 1) * (U + 1) by ident.
  by rewrite mulr_ge0 ?subr_ge0 // addr_ge0 ?ler01 // ltW.
rewrite -(ler_pmul2r d0) mulrAC; apply: le_trans (ler_wpmul2r (ltW (den_gt0 Sge0)) key) _.
rewrite -subr_ge0; have -> : S * (U ^+ 2 - 1) * den (a * b) - a * b * (U ^+ 2 - 1) * den S =
    (U ^+ 2 - 1) * (n%:R ^+ 2 * U) * (S - a * b) by rewrite /den; ident.
apply: mulr_ge0; last by rewrite subr_ge0.
by apply: mulr_ge0 => //; apply: mulr_ge0; [apply: sqr_ge0|apply: ltW].
Qed.

Lemma UE : U = exp r * exp r. Proof. by rewrite /U -expD; congr exp; ident. Qed.
Lemma tanhE : tanh exp r = (U - 1) / (U + 1).
Proof.
have EV : exp r * exp (- r) = 1 by rewrite -expD subrr exp0.
have [E0 V0] : 0 < exp r /\ 0 < exp (- r) by split; apply: exp_gt0.
have h2 : 2%:R^-1 != 0 :> R by rewrite invr_eq0 pnatr_eq0.
rewrite /tanh; apply/eqP; rewrite eqr_div; last 2 first.
- by rewrite gt_eqF // addr_gt0.
- by rewrite gt_eqF // addr_gt0 ?ltr01 // UE mulr_gt0.
rewrite UE; move: (exp r) (exp (- r)) EV => E V EV; apply/eqP.
transitivity (E * E * E - V + (E - E * V * E)); first by ident.
transitivity (E * E * E - V + (E * V * E - E)); last by ident.
by rewrite EV mul1r.
Qed.

(* ... which is at most tanh R, and equal to it for even n. *)
Theorem bound_tanh : 1 <= U -> sinh (2%:R * r) / (cosh (2%:R * r) + c_n) <= tanh exp r.
Proof.
move=> U1; rewrite boundE tanhE; have U0 : 0 < U := exp_gt0 _.
have Sge0 : 0 <= S by rewrite mulr_ge0 ?ler0n.
rewrite /G ler_pdivr_mulr ?den_gt0 // [X in _ <= X]mulrAC ler_pdivl_mulr ?addr_gt0 ?ltr01 //.
have nE : n%:R = k%:R + (n - k)%:R :> R by rewrite -natrD subnKC ?kn.
rewrite -subr_ge0 /den /S nE; move: (k%:R) ((n - k)%:R) => K L.
have -> : (U - 1) * (K * L * (U - 1) ^+ 2 + (K + L) ^+ 2 * U) - K * L * (U ^+ 2 - 1) * (U + 1) =
  (U - 1) * U * (K - L) ^+ 2 by ident.
apply: mulr_ge0; last exact: sqr_ge0.
by apply: mulr_ge0; [rewrite subr_ge0|apply: ltW].
Qed.
Theorem bound_even : ~~ odd n -> sinh (2%:R * r) / (cosh (2%:R * r) + c_n) = tanh exp r.
Proof.
move=> ev; rewrite boundE tanhE; have U0 : 0 < U := exp_gt0 _.
have nk : (n - k = k)%N by rewrite -{1}(odd_double_half n) (negbTE ev) add0n -addnn addnK.
have kk : (k + k = n)%N by have := subnK kn; rewrite nk.
have nE : n%:R = k%:R + k%:R :> R by rewrite -natrD kk.
have Sge0 : 0 <= S by rewrite mulr_ge0 ?ler0n.
apply/eqP; rewrite /G eqr_div; last 2 first.
- by rewrite gt_eqF // den_gt0.
- by rewrite gt_eqF // addr_gt0 ?ltr01.
apply/eqP; have -> : S = k%:R * k%:R by rewrite /S nk.
by rewrite /den nE; ident.
Qed.

(* For all n and R >= 0 some logits attain the first bound. *)
Theorem radius_attained : 0 <= r -> exists l, (forall i, radius (l i) r) /\
  is_tau (attention l) (sinh (2%:R * r) / (cosh (2%:R * r) + c_n)).
Proof.
move=> r0; pose i0 := Ordinal (ltnW n2); pose i1 := Ordinal n2.
pose l (i j : 'I_n) := if (i == i0) == (j < k)%N then r else - r.
have rad i : radius (l i) r.
  move=> a b; have r2 : 0 <= 2%:R * r by rewrite mulr_ge0 ?ler0n.
  rewrite /l; case: (_ == (a < k)%N); case: (_ == (b < k)%N); rewrite ?subrr ?opprK //.
    by have -> : r + r = 2%:R * r by ident.
  by apply: le_trans r2; rewrite -opprD oppr_le0 addr_ge0.
exists l; split=> //; have st := attention_stochastic l.
pose B := sinh (2%:R * r) / (cosh (2%:R * r) + c_n).
(* Two such rows differ by the bound at least. *)
suff low : B <= tv (attention l) i0 i1.
  have le i j : tv (attention l) i j <= B.
    have [[a b] /= _ max] := @arg_maxP _ _ _ (i, j) predT
      (fun p : 'I_n * 'I_n => tv (attention l) p.1 p.2) isT.
    apply: le_trans (_ : tv (attention l) a b <= _); first exact: (max (i, j)).
    apply: (radius_bound rad); split=> [i' j'|]; [exact: (max (i', j'))|by exists a, b].
  by split=> //; exists i0, i1; apply/eqP; rewrite eq_le le low.
pose A := [set m : 'I_n | (m < k)%N].
have cA : #|A| = k.
  rewrite cardsE -sum1_card (eq_bigl (fun m : 'I_n => (m < k)%N)) //.
  by rewrite -(big_ord_widen n (fun _ => 1%N) kn) sum1_card card_ord.
have row (c d : R) : \sum_(j < n) exp (if (j < k)%N then c else d) =
    k%:R * exp c + (n - k)%:R * exp d.
  rewrite (bigID (mem A)) /=; congr (_ + _).
    rewrite (eq_bigr (fun _ => exp c)) => [|m]; last by rewrite inE => ->.
    by rewrite sumr_const cA mulr_natl.
  rewrite (eq_bigr (fun _ => exp d)) => [|m]; last by rewrite inE => /negbTE ->.
  rewrite (eq_bigl (fun m => m \in ~: A)) => [|m]; last by rewrite /= !inE.
  by rewrite sumr_const cardsCs setCK cA card_ord mulr_natl.
have [K0 L0] : 0 < k%:R :> R /\ 0 <= (n - k)%:R :> R by split; rewrite ?ler0n // ltr0n /k half_gt0.
have nE : n%:R = k%:R + (n - k)%:R :> R by rewrite -natrD subnKC ?kn.
have wA i (c d : R) : (forall j : 'I_n, l i j = if (j < k)%N then c else d) ->
    \sum_(m in A) softmax exp (l i) m = k%:R * exp c / (k%:R * exp c + (n - k)%:R * exp d).
  move=> lE; rewrite -row /softmax -mulr_suml; congr (_ / _); last first.
    by apply: eq_bigr => j _; rewrite lE.
  rewrite (eq_bigr (fun _ => exp c)) => [|m]; last by rewrite inE lE => ->.
  by rewrite sumr_const cA mulr_natl.
have low : \sum_(m in A) softmax exp (l i0) m - \sum_(m in A) softmax exp (l i1) m <=
    tv (attention l) i0 i1.
  have [m0 _ <- _] := parts i0 i1 st; rewrite -sumrB [X in _ <= X](bigID (mem A)) /=.
  apply: ler_paddr; first by apply: sumr_ge0.
  by apply: ler_sum => m _; rewrite /mu !mxE le_maxr lexx.
apply: le_trans low; rewrite (wA i0 r (- r)) => [|j]; last by rewrite /l eqxx; case: (j < k)%N.
rewrite (wA i1 (- r) r) => [|j]; last by rewrite /l; case: (j < k)%N.
have EV : exp r * exp (- r) = 1 by rewrite -expD subrr exp0.
have [E0 V0] : 0 < exp r /\ 0 < exp (- r) by split; apply: exp_gt0.
rewrite /B boundE /G /den /S nE UE; move: (k%:R) ((n - k)%:R) (exp r) (exp (- r)) K0 L0 EV E0 V0.
move=> K L E V K0 L0 EV E0 V0; rewrite le_eqVlt; apply/orP; left; apply/eqP.
have d1 : 0 < K * E + L * V by apply: ltr_paddr; [apply: mulr_ge0 => //;
  apply: ltW|apply: mulr_gt0].
have d2 : 0 < K * V + L * E by apply: ltr_paddr; [apply: mulr_ge0 => //;
  apply: ltW|apply: mulr_gt0].
have -> : K * L * (E * E - 1) ^+ 2 + (K + L) ^+ 2 * (E * E) =
    (K * E + L * V) * (K * V + L * E) * (E * E).
  transitivity (K * K * (E * E) + L * L * (E * E) + K * L * (E * E * (E * E) + 1)); first by ident.
  transitivity (K * K * (E * V) * (E * E) + L * L * (E * V) * (E * E) +
    K * L * (E * E * (E * E) + (E * V) * (E * V))); last by ident.
  by rewrite EV !mulr1.
apply: (mulIf (lt0r_neq0 (mulr_gt0 (mulr_gt0 d1 d2) (mulr_gt0 E0 E0)))).
rewrite divfK; last by rewrite lt0r_neq0 ?mulr_gt0.
transitivity ((K * E / (K * E + L * V) * (K * E + L * V) * (K * V + L * E) -
  K * V / (K * V + L * E) * (K * V + L * E) * (K * E + L * V)) * (E * E)); last by ident.
rewrite !divfK ?lt0r_neq0 //.
transitivity (K * L * (E * E * (E * E) - 1)); first by ident.
transitivity (K * L * (E * E * (E * E) - (E * V) * (E * V))); first by rewrite EV mulr1.
by ident.
Qed.
End Radius.
